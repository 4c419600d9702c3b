import { getContext, setContext } from "svelte";
import en from "./en.json";
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
export function translator(locale: Locale): Translate {
  const catalogue: Catalogue = catalogues[locale];
  return (key, values = {}) =>
    catalogue[key].replace(/\{(\w+)\}/g, (place, name: string) => String(values[name] ?? place));
}

const CONTEXT = Symbol("translate");

export function provideTranslate(translate: Translate): void {
  setContext(CONTEXT, translate);
}

export function useTranslate(): Translate {
  return getContext<Translate>(CONTEXT);
}
