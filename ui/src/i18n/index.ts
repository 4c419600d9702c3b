import { getContext, setContext } from "svelte";
import en from "./en.json";
import { type Format, formatter } from "./format";
import ko from "./ko.json";

export type MessageKey = keyof typeof en;
type Catalogue = Record<MessageKey, string>;

export const catalogues = { en, ko } satisfies Record<string, Catalogue>;
export type Locale = keyof typeof catalogues;
export type Translate = (key: MessageKey, values?: Record<string, string | number>) => string;

/** Takes the first language of the list that has a catalogue; English when none has. */
export function localeFor(preferred: readonly string[]): Locale {
  for (const tag of preferred) {
    const language = tag.toLowerCase().split("-")[0];
    if (language === "en" || language === "ko") return language;
  }
  return "en";
}

/** Fills `{name}` places from `values`; a place without a value stays visible as written. */
export function translator(locale: Locale, catalogue: Catalogue = catalogues[locale]): Translate {
  return (key, values = {}) =>
    catalogue[key].replace(/\{(\w+)\}/g, (place, name: string) => String(values[name] ?? place));
}

/** Whether there are words for a name that the engine gave; what has none is shown by its own name. */
export function isMessage(key: string): key is MessageKey {
  return Object.hasOwn(en, key);
}

const CONTEXT = Symbol("language");

interface Speech {
  t: Translate;
  f: Format;
}

export function provideSpeech(locale: Locale, translate: Translate): Speech {
  return setContext<Speech>(CONTEXT, { t: translate, f: formatter(locale, translate) });
}

/** The words (`t`) and the forms of numbers and times (`f`) of the window's language. */
export function useSpeech(): Speech {
  return getContext<Speech>(CONTEXT);
}
