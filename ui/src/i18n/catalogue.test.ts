import { describe, expect, it } from "vitest";
import { catalogues, localeFor, translator } from ".";

const places = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(([place]) => place).sort();

describe("the catalogues", () => {
  it("have the same keys in every language", () => {
    expect(Object.keys(catalogues.ko).sort()).toEqual(Object.keys(catalogues.en).sort());
  });

  it("fill the same places in every language", () => {
    for (const key of Object.keys(catalogues.en) as (keyof typeof catalogues.en)[]) {
      expect(places(catalogues.ko[key]), key).toEqual(places(catalogues.en[key]));
    }
  });

  it("leave no message empty", () => {
    for (const [locale, catalogue] of Object.entries(catalogues)) {
      for (const [key, text] of Object.entries(catalogue)) expect(text.trim(), `${locale} ${key}`).not.toBe("");
    }
  });
});

describe("localeFor", () => {
  it("takes the first language that has a catalogue", () => {
    expect(localeFor(["fr-FR", "ko-KR", "en-US"])).toBe("ko");
  });

  it("falls back to English", () => {
    expect(localeFor(["fr-FR"])).toBe("en");
    expect(localeFor([])).toBe("en");
  });
});

describe("translator", () => {
  it("fills the named places", () => {
    expect(translator("en")("state.paired", { count: 2 })).toBe("Paired: 2");
    expect(translator("ko")("state.paired", { count: 2 })).toBe("연결됨: 2");
  });
});
