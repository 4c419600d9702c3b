import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { expect } from "vitest";

const TARGET = join(import.meta.dirname, "..", "..", "target");
const SHOTS = join(TARGET, "ui-shots");
const NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Where a Chromium is, if this machine has one. */
export function chromiumHere(): string | null {
  const named = process.env.EVERDICT_CHROMIUM;
  if (named) return named;
  const folders = (process.env.PATH ?? "").split(":");
  return NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path)) ?? null;
}

export async function launch(): Promise<Browser> {
  const executablePath = chromiumHere();
  if (executablePath === null) throw new Error("no Chromium in PATH: install chromium-headless-shell");
  return chromium.launch({
    executablePath,
    // As root, as in most containers, Chromium has no sandbox to offer; the pages here are our own.
    args: ["--no-sandbox", "--js-flags=--expose-gc"],
  });
}

export interface Look {
  width?: number;
  height?: number;
  scheme?: "light" | "dark";
  locale?: string;
  /** Of the text, in percent of the browser's own. */
  text?: number;
}

// Much longer than anything here takes, and shorter than a test may.
const WAIT_MS = 15_000;
const STANDARD_PX = 16;
const FIXED_PX = 13;

/** Opens a page that collects whatever goes wrong in it. */
export async function open(browser: Browser, url: string, look: Look = {}): Promise<{ page: Page; wrong: string[] }> {
  const page = await browser.newPage({
    viewport: { width: look.width ?? 1080, height: look.height ?? 720 },
    colorScheme: look.scheme ?? "light",
    locale: look.locale ?? "en-US",
    reducedMotion: "reduce",
  });
  page.setDefaultTimeout(WAIT_MS);
  const wrong: string[] = [];
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") wrong.push(message.text());
  });
  if (look.text !== undefined) {
    const client = await page.context().newCDPSession(page);
    const share = look.text / 100;
    // As the browser's own setting does it: sizes in em and rem grow, those of media queries too.
    await client.send("Page.setFontSizes", {
      fontSizes: { standard: Math.round(STANDARD_PX * share), fixed: Math.round(FIXED_PX * share) },
    });
  }
  await page.goto(url);
  return { page, wrong };
}

/** Keeps a picture for people to look at. */
export async function shot(page: Page, name: string): Promise<void> {
  mkdirSync(SHOTS, { recursive: true });
  await page.screenshot({ path: join(SHOTS, `${name}.png`) });
}

/** Fails on anything that axe finds with real colours and real pixels. */
export async function expectAccessible(page: Page, where: string): Promise<void> {
  // The page's content security policy lets nothing in by a script element.
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run: () => Promise<{ violations: Violation[] }> } };
    interface Violation {
      id: string;
      nodes: { html: string; failureSummary?: string }[];
    }
    const { violations } = await axe.run();
    return violations.map(
      (one) => `${one.id}: ${one.nodes.map((node) => `${node.html} ${node.failureSummary}`).join("\n")}`,
    );
  });
  expect(found, where).toEqual([]);
}

/** What of the page's own text is cut off: no ellipsis and no clipped control counts as readable. */
export function cutOff(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const SLACK = 1;
    // The log is a terminal, and the card's last line of it is a glimpse that is meant to be cut.
    const FREE = ".view, .line, .stream, .visually-hidden, svg, canvas, .from";
    const found: string[] = [];
    const tell = (element: Element, why: string) =>
      found.push(
        `${why}: <${element.tagName.toLowerCase()} class="${element.className}"> ${(element.textContent ?? "").trim().slice(0, 60)}`,
      );
    const pen = document.createElement("canvas").getContext("2d");
    const widthOf = (text: string, style: CSSStyleDeclaration) => {
      if (pen === null) return 0;
      pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
      return pen.measureText(text).width;
    };
    const main = document.querySelector("main");
    if (main !== null && main.scrollWidth > main.clientWidth + SLACK) tell(main, "the page scrolls sideways");
    for (const element of document.querySelectorAll<HTMLElement>("body *")) {
      if (element.closest(FREE) !== null || element.getClientRects().length === 0) continue;
      const style = getComputedStyle(element);
      const padding = Number.parseFloat(style.paddingLeft) + Number.parseFloat(style.paddingRight);
      if (element instanceof HTMLSelectElement) {
        const ARROW_PX = 20;
        const text = element.selectedOptions[0]?.text ?? "";
        if (widthOf(text, style) > element.clientWidth - padding - ARROW_PX + SLACK) tell(element, `"${text}" is cut`);
        continue;
      }
      if (element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement) {
        if (widthOf(element.placeholder, style) > element.clientWidth - padding + SLACK)
          tell(element, `"${element.placeholder}" is cut`);
        continue;
      }
      const clips = style.overflowX === "hidden" || style.overflowX === "clip" || style.textOverflow === "ellipsis";
      const control = element.matches("button, a, label, h1, h2, h3, th, dt, dd, td, p, strong");
      const wider = element.scrollWidth > element.clientWidth + SLACK;
      if (wider && style.display !== "inline" && (clips || control)) tell(element, "its text is wider");
      if (
        style.overflowY === "hidden" &&
        element.scrollHeight > element.clientHeight + SLACK &&
        (element.textContent ?? "").trim() !== "" &&
        !element.matches("main, html, body, .frame")
      )
        tell(element, "its text is higher");
    }
    return found;
  });
}
