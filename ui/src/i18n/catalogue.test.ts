import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { cleanup, fireEvent, screen } from "@testing-library/svelte";
import { afterEach, describe, expect, it, vi } from "vitest";
import { SAMPLE_DETAIL, SAMPLE_JOBS } from "../host/scripted-data";
import { DONE, JOB, paired, show, withoutLayout } from "../test/show";
import { catalogues, type Locale, localeFor, type MessageKey, translator } from ".";
import { formatter, secondsBetween, sentence } from "./format";
import { pseudoTranslator } from "./pseudo";

const places = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(([place]) => place).sort();
const keys = Object.keys(catalogues.en) as MessageKey[];
const SOURCES = join(import.meta.dirname, "..");

function sources(ending: string): [string, string][] {
  return readdirSync(SOURCES, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(ending) && !name.endsWith(".test.ts"))
    .map((name) => [name, readFileSync(join(SOURCES, name), "utf8")]);
}

describe("the catalogues", () => {
  it("have the same keys in every language", () => {
    expect(Object.keys(catalogues.ko).sort()).toEqual(Object.keys(catalogues.en).sort());
  });

  it("fill the same places in every language", () => {
    for (const key of keys) expect(places(catalogues.ko[key]), key).toEqual(places(catalogues.en[key]));
  });

  it("leave no message empty", () => {
    for (const [locale, catalogue] of Object.entries(catalogues)) {
      for (const [key, text] of Object.entries(catalogue)) expect(text.trim(), `${locale} ${key}`).not.toBe("");
    }
  });

  it("shout, blame and beg nowhere", () => {
    for (const key of keys) expect(catalogues.en[key], key).not.toMatch(/!|\bplease\b|\bsorry\b/i);
  });

  it("hold no message that nothing uses", () => {
    const all = [...sources(".svelte"), ...sources(".ts")].map(([, text]) => text).join("\n");
    // A key that ends in a value of the engine is written with that value's place.
    const families = [...all.matchAll(/`([\w.]+\.)\$\{/g)].map(([, family]) => family ?? "");
    const unused = keys.filter(
      (key) => !all.includes(`"${key}"`) && !families.some((family) => key.startsWith(family)),
    );
    expect(unused).toEqual([]);
  });
});

describe("the components", () => {
  it("hold no text of their own", () => {
    for (const [name, source] of sources(".svelte")) {
      const markup = source
        .replace(/<script[\s\S]*?<\/script>/g, "")
        .replace(/<style[\s\S]*?<\/style>/g, "")
        .replace(/<!--[\s\S]*?-->/g, "")
        .replace(/\{[^{}]*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[^{}]*)*\}/g, "");
      const texts = [...markup.matchAll(/>([^<>]*)</g)].map(([, text]) => text ?? "");
      const labels = [...markup.matchAll(/(?:aria-label|title|placeholder|alt)="([^"]+)"/g)].map(
        ([, text]) => text ?? "",
      );
      for (const text of [...texts, ...labels]) {
        const bare = text.trim();
        if (bare.startsWith("https://") || bare === "") continue;
        expect(bare, `${name}: ${bare}`).not.toMatch(/\p{L}{2,}/u);
      }
    }
  });

  it("set no style by attribute, which the content security policy forbids", () => {
    for (const [name, source] of sources(".svelte")) expect(source, name).not.toMatch(/\sstyle=/);
  });

  it("show nothing as markup", () => {
    for (const [name, source] of sources(".svelte")) expect(source, name).not.toMatch(/\{@html|innerHTML/);
  });
});

describe("a language with longer words", () => {
  afterEach(() => {
    cleanup();
    vi.unstubAllGlobals();
  });

  const script = {
    snapshot: paired({ state: "running" as const, active: [JOB], keyring: "locked" as const, trayHost: false }),
    jobs: [JOB, DONE, ...SAMPLE_JOBS],
    details: SAMPLE_DETAIL,
  };
  // What the engine, the hub or the code names, in no language.
  const NAMES = ["workbench", "Debian GNU/Linux 12 (bookworm)", "x86_64", "0.1.0", "Everdict Runner", "127.0.0.1:8787"];

  it.each(["", "#/jobs", "#/jobs/j-14", "#/settings", "#/pair"])(
    "reaches every control and heading at %s",
    async (hash) => {
      withoutLayout();
      const { container } = show(script, hash, pseudoTranslator());
      await vi.waitFor(() => expect(container.querySelector("h1")?.textContent).toBeTruthy());
      await vi.waitFor(() => expect(container.querySelector(".skeleton")).toBeNull());
      const engine = [...script.jobs.map((job) => job.caseId), ...NAMES];
      const texts = [...container.querySelectorAll("h1, h2, h3, button, nav a, label, th, dt, option")].map((element) =>
        (element.getAttribute("aria-label") ?? element.textContent ?? "").trim(),
      );
      for (const text of texts) {
        if (text === "" || engine.includes(text)) continue;
        expect(text).toMatch(/^\[.*\]/s);
      }
      expect(texts.length).toBeGreaterThan(5);
    },
  );
});

describe("the choice of language", () => {
  afterEach(() => {
    cleanup();
    localStorage.clear();
    vi.unstubAllGlobals();
  });

  it("takes the first language that has a catalogue", () => {
    expect(localeFor(["fr-FR", "ko-KR", "en-US"])).toBe("ko");
    expect(localeFor(["fr-FR"])).toBe("en");
    expect(localeFor([])).toBe("en");
  });

  it("holds at once and for the next window, and so do the colours", async () => {
    withoutLayout();
    show({ snapshot: paired() }, "#/settings");
    await fireEvent.change(await screen.findByLabelText("Language"), { target: { value: "ko" } });
    expect(await screen.findByRole("heading", { name: "설정" })).toBeTruthy();
    expect(document.documentElement.lang).toBe("ko");
    await fireEvent.change(screen.getByLabelText("색상"), { target: { value: "dark" } });
    await vi.waitFor(() => expect(document.documentElement.dataset.theme).toBe("dark"));
    cleanup();
    show({ snapshot: paired() }, "#/settings");
    expect(await screen.findByRole("heading", { name: "설정" })).toBeTruthy();
    await fireEvent.change(screen.getByLabelText("색상"), { target: { value: "system" } });
    await vi.waitFor(() => expect(document.documentElement.dataset.theme).toBeUndefined());
  });
});

describe("translator", () => {
  it("fills the named places and leaves others as they are", () => {
    expect(translator("en")("state.running", { count: 2 })).toBe("Running 2");
    expect(translator("ko")("state.running", { count: 2 })).toBe("2개 실행 중");
    expect(translator("en")("state.running")).toBe("Running {count}");
  });
});

describe("formatter", () => {
  const form = (locale: Locale) => formatter(locale, translator(locale));

  it("gives durations and ages one form", () => {
    const f = form("en");
    expect([9.9, 130, 3840, -5].map(f.duration)).toEqual(["9 s", "2 m 10 s", "1 h 04 m", "0 s"]);
    expect([12, 200, 7300, 200_000].map(f.age)).toEqual(["12 s ago", "3 m ago", "2 h ago", "2 d ago"]);
    expect(form("ko").duration(130)).toBe("2분 10초");
  });

  it("gives sizes three digits and a unit", () => {
    expect([0, 999, 4096, 412_000_000, 182_400_000_000].map(form("en").bytes)).toEqual([
      "0 B",
      "999 B",
      "4.1 kB",
      "412 MB",
      "182 GB",
    ]);
  });

  it("shows cents of cents, and a time that is none as it came", () => {
    expect(form("en").money(0.0773)).toBe("$0.0773");
    expect(form("en").money(12)).toBe("$12.00");
    expect(form("en").clock("never")).toBe("never");
    expect(secondsBetween("never", 0)).toBeNull();
  });

  it("makes a sentence of an engine's text", () => {
    expect(sentence("the disk is full")).toBe("The disk is full.");
    expect(sentence("Is it on?")).toBe("Is it on?");
    expect(sentence("  ")).toBe("");
  });
});
