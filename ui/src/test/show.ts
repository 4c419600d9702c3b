import { configure, render } from "@testing-library/svelte";
import axe from "axe-core";
import { expect, vi } from "vitest";
import App from "../App.svelte";
import type { AppSnapshot, JobView, RunnerView } from "../host/generated/contract";
import { EMPTY_SNAPSHOT, type Script, ScriptedHost } from "../host/scripted";
import type { Translate } from "../i18n";

// A busy machine draws late; what never comes still fails.
configure({ asyncUtilTimeout: 8000 });

export const NOW = new Date("2026-03-01T12:00:00Z").getTime();
const SECOND = 1000;
export const ago = (seconds: number) => new Date(NOW - seconds * SECOND).toISOString();

export const RUNNER: RunnerView = {
  id: "r-1",
  label: "workbench",
  hub: "http://127.0.0.1:8787",
  target: "self:r-1",
  state: "idle",
  stateText: "",
  cause: null,
  lastAnswerAt: ago(12),
  active: 0,
  slots: 2,
  embedded: true,
};

export const JOB: JobView = {
  id: "j-1",
  caseId: "fix-parser",
  harness: "claude-code@2.1",
  workspace: "local",
  startedAt: ago(130),
  endedAt: null,
  outcome: null,
  runner: "workbench",
  tokens: 1200,
  costUsd: 0.05,
};

export const DONE: JobView = {
  ...JOB,
  id: "j-0",
  caseId: "hello",
  startedAt: ago(400),
  endedAt: ago(390),
  outcome: "passed",
};

export function paired(change: Partial<AppSnapshot> = {}): Partial<AppSnapshot> {
  return { state: "idle", lastAnswerAt: ago(12), runners: [RUNNER], ...change };
}

/** Shows the app at an address over a scripted host. */
export function show(script: Script = {}, hash = "", translate?: Translate) {
  location.hash = hash;
  const host = new ScriptedHost(script);
  const view = render(App, { props: { host, ...(translate === undefined ? {} : { translate }) } });
  return { host, ...view };
}

/** A test's dialogs open without a top layer, and nothing has a size. */
export function withoutLayout(): void {
  vi.stubGlobal(
    "ResizeObserver",
    class {
      observe() {}
      disconnect() {}
    },
  );
}

/** Fails on anything that axe finds; what needs real pixels is looked at in a browser. */
export async function expectAccessible(container: Element): Promise<void> {
  const found = await axe.run(container, {
    rules: { "color-contrast": { enabled: false }, region: { enabled: false } },
  });
  expect(found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`)).toEqual([]);
}

export { EMPTY_SNAPSHOT };
