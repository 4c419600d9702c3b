import type { Browser } from "playwright-core";
import type { PreviewServer } from "vite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { catalogues } from "../src/i18n";
import { cutOff, expectAccessible, type Look, launch, open, shot } from "./browser";
import { SCREENS, serveDemo, show } from "./screens";

let browser: Browser;
let server: PreviewServer;
let url: string;

beforeAll(async () => {
  ({ server, url } = await serveDemo());
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await server?.close();
});

it("what is cut off is noticed", async () => {
  const { page } = await open(browser, `${url}?still#/jobs`);
  await page.locator("table").waitFor();
  expect(await cutOff(page)).toEqual([]);
  await page.evaluate(() => {
    for (const name of ["h1", ".data-tools select", ".data-tools input", "thead button"]) {
      const element = document.querySelector<HTMLElement>(name);
      if (element === null) throw new Error(`no ${name}`);
      Object.assign(element.style, {
        width: "20px",
        minWidth: "20px",
        flex: "none",
        whiteSpace: "nowrap",
        overflow: "hidden",
      });
    }
  });
  expect((await cutOff(page)).map((one) => /<(\w+)/.exec(one)?.[1])).toEqual(["h1", "input", "select", "button"]);
  await page.close();
});

describe.each(SCREENS)("the screen $name", (screen) => {
  it("is accessible in light and dark, cuts nothing off at its least size, and nothing goes wrong in it", async () => {
    const { page, wrong } = await open(browser, `${url}?${screen.address}`);
    await show(page, screen);
    for (const scheme of ["dark", "light"] as const) {
      await page.emulateMedia({ colorScheme: scheme });
      await shot(page, `${screen.name}-${scheme}`);
      await expectAccessible(page, `${screen.name} in ${scheme}`);
    }
    expect(await cutOff(page)).toEqual([]);
    await page.setViewportSize({ width: 720, height: 480 });
    await shot(page, `${screen.name}-small`);
    expect(await cutOff(page)).toEqual([]);
    expect(wrong).toEqual([]);
    await page.close();
  });

  it.each<[string, Look]>([
    ["large-text", { text: 200 }],
    ["korean", { locale: "ko-KR" }],
  ])("cuts nothing off with %s", async (name, look) => {
    const { page } = await open(browser, `${url}?${screen.address}`, look);
    await show(page, screen);
    await shot(page, `${screen.name}-${name}`);
    expect(await cutOff(page)).toEqual([]);
    await page.close();
  });
});

/** Texts as the English catalogue has them, with anything in its places. */
const ENGLISH = Object.values(catalogues.en)
  .filter((text) => /\p{L}{3}/u.test(text.replace(/\{\w+\}/g, "")))
  .map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/\\\{\w+\\\}/g, ".+"));

// What the engine, the hub or the code names, in no language.
const NAMES = ["Everdict Runner", "English", "한국어", "git", "Browser", "Keyring", "Container engine", "Free disk"];

describe.each([
  ["longer words", "pseudo"],
  ["words from right to left", "pseudo=rtl"],
])("a language with %s", (_, query) => {
  it.each(SCREENS)("has room on the screen $name, and every text is its own", async (screen) => {
    const [asked, hash] = screen.address.split("#");
    const { page, wrong } = await open(browser, `${url}?${asked}&${query}#${hash}`);
    await show(page, screen);
    await shot(page, `${screen.name}-${query.replace("=", "-")}`);
    expect(await cutOff(page)).toEqual([]);
    expect(wrong).toEqual([]);
    const escaped = await page.evaluate(
      ([english, names]) => {
        const whole = new RegExp(`^(?:${english.join("|")})$`, "u");
        const found: string[] = [];
        const take = (text: string | null | undefined) => {
          const bare = (text ?? "").replace(/\s+/g, " ").trim();
          if (bare !== "" && !bare.includes("[") && !names.includes(bare) && whole.test(bare)) found.push(bare);
        };
        // What the engine said in its own words is not the catalogue's: cases, reasons, checks, logs.
        const skip = ".view, .mono, pre, code, td.name, .line, svg";
        const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
          if (node.parentElement?.closest(skip) === null) take(node.textContent);
        }
        for (const element of document.querySelectorAll("[aria-label], [placeholder]")) {
          if (element.closest(skip) !== null) continue;
          take(element.getAttribute("aria-label"));
          take(element.getAttribute("placeholder"));
        }
        return found;
      },
      [ENGLISH.filter((text) => text !== ".+"), NAMES] as const,
    );
    expect(escaped).toEqual([]);
    await page.close();
  });
});
