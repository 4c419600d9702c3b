import type { MessageKey, Translate } from "../../i18n";

const NAMES: Record<string, MessageKey> = {
  git: "capability.name.git",
  docker: "capability.name.docker",
  browser: "capability.name.browser",
  "os-use": "capability.name.os-use",
  "claude-login": "capability.name.claude-login",
  "codex-login": "capability.name.codex-login",
};

/** The capability's name in words; a kind that has none keeps its own. */
export function capabilityName(name: string, t: Translate): string {
  const key = Object.hasOwn(NAMES, name) ? NAMES[name] : undefined;
  return key === undefined ? name : t(key);
}
