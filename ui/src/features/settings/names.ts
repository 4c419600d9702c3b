import type { SettingView } from "../../host/generated/contract";
import { isMessage, type Translate } from "../../i18n";
import type { Format } from "../../i18n/format";

/** The setting's name in words; one that has none shows the end of its key. */
export function settingName(setting: SettingView, t: Translate): string {
  const key = `setting.${setting.key}`;
  return isMessage(key) ? t(key) : (setting.key.split(".").at(-1) ?? setting.key).replaceAll("_", " ");
}

/** What it means, in the window's language where there are words for it, else in the engine's. */
export function settingHelp(setting: SettingView, t: Translate): string {
  const key = `help.${setting.key}`;
  return isMessage(key) ? t(key) : setting.help;
}

export function choiceName(choice: string, t: Translate): string {
  const key = `choice.${choice}`;
  return isMessage(key) ? t(key) : choice;
}

export function groupName(group: string, t: Translate): string {
  const key = `group.${group}`;
  return isMessage(key) ? t(key) : group;
}

export function unitName(unit: string, t: Translate): string {
  const key = `unit.${unit}`;
  return isMessage(key) ? t(key) : unit;
}

/** A value as people read it. */
export function valueText(value: SettingView["value"], t: Translate, f: Format): string {
  if (typeof value === "boolean") return t(value ? "settings.on" : "settings.off");
  if (typeof value === "number") return f.number(value);
  if (Array.isArray(value)) return value.map((one) => choiceName(one, t)).join(", ") || t("settings.none");
  return value === "" ? t("settings.none") : choiceName(value, t);
}
