import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { ScriptedHost } from "../src/host/scripted";
import { SAMPLE_BATCHES, SAMPLE_COMPARISONS, SAMPLE_PREVIEWS, SAMPLE_SETTINGS } from "../src/host/scripted-more";
import { launch, open, shot } from "./browser";
import { PageServer } from "./hub";

let browser: Browser;
let server: PageServer;
let page: Page;
let wrong: string[];

const script = {
  settings: SAMPLE_SETTINGS,
  batches: SAMPLE_BATCHES,
  comparisons: SAMPLE_COMPARISONS,
  previews: SAMPLE_PREVIEWS,
};

beforeAll(async () => {
  browser = await launch();
});

afterAll(() => browser?.close());

beforeEach(async () => {
  server = new PageServer(new ScriptedHost(script));
  await server.listen();
});

afterEach(async () => {
  await page?.close();
  await server.close();
});

async function start(link = server.link()): Promise<void> {
  ({ page, wrong } = await open(browser, link));
}

/** Presses Tab until something has this name. */
async function tabTo(name: RegExp): Promise<void> {
  const LONGEST = 60;
  for (let press = 0; press < LONGEST; press++) {
    await page.keyboard.press("Tab");
    const focused = await page.evaluate(() => {
      const element = document.activeElement;
      return (
        element?.getAttribute("aria-label") ??
        (element as HTMLInputElement | null)?.labels?.[0]?.textContent ??
        element?.textContent ??
        ""
      );
    });
    if (name.test(focused.trim())) return;
  }
  throw new Error(`the keyboard never came to ${name}`);
}

async function setHidden(hidden: boolean): Promise<void> {
  await page.evaluate((now) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => now });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
}

// The first job of a scripted engine.
const JOB = "run-1";

describe("in a browser, over HTTP", () => {
  it("a link becomes a session once; without one the page says what to do", async () => {
    const link = server.link();
    await start(link);
    await page.getByRole("heading", { name: "Set up this machine" }).waitFor();
    expect(page.url()).toBe(`${server.url}`);
    expect(wrong).toEqual([]);
    await page.reload();
    await page.getByRole("heading", { name: "Set up this machine" }).waitFor();
    const other = await browser.newContext();
    const copied = await other.newPage();
    await copied.goto(link);
    await copied.getByText("Run everdict-runner ui once more").waitFor();
    expect(await copied.getByRole("heading", { name: "Set up this machine" }).count()).toBe(0);
    await other.close();
  });

  it("from nothing to a verdict, by keyboard alone", async () => {
    await start();
    await page.getByRole("heading", { name: "Set up this machine" }).waitFor();
    await tabTo(/^Use this computer$/);
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "This machine is paired" }).waitFor();
    await tabTo(/^Run a sample case$/);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "hello-runner" }).waitFor();
    await shot(page, "flow-running");
    server.host.log(JOB, ["\u001b[32mhello\u001b[0m from the case", "<img src=x onerror=alert(1)>"]);
    await page.getByText("from the case").waitFor();
    expect(await page.locator("img[src=x]").count()).toBe(0);
    const [running] = await server.host.jobs(1);
    if (running === undefined) throw new Error("no job runs");
    server.host.setJob({ ...running, endedAt: new Date().toISOString(), outcome: "passed" });
    await page.locator("main").getByText("Passed").waitFor();
    await tabTo(/^Settings$/);
    await page.keyboard.press("Enter");
    await tabTo(/^Unpair$/);
    await page.keyboard.press("Enter");
    await tabTo(/^Unpair$/);
    await page.keyboard.press("Enter");
    await page.getByText("This machine is paired with no hub.").waitFor();
    expect(server.host.calls.map(([name]) => name)).toEqual(["pairThisComputer", "submitSample", "unpair"]);
    expect(wrong).toEqual([]);
  });

  it("a hidden page hears nothing, and is right again when it is shown", async () => {
    await start();
    await page.getByRole("button", { name: "Use this computer" }).click();
    await page.getByRole("button", { name: "Run a sample case" }).click();
    await page.getByRole("heading", { name: "hello-runner" }).waitFor();
    await vi.waitFor(() => expect(server.streams).toBe(2));
    server.host.log(JOB, ["before"]);
    await page.getByText("before").waitFor();
    await setHidden(true);
    await vi.waitFor(() => expect(server.streams).toBe(0));
    server.host.log(JOB, ["meanwhile"]);
    await server.host.pause(null);
    await setHidden(false);
    await page.getByText("meanwhile").waitFor();
    await page.getByText("Paused").first().waitFor();
    expect(await page.getByText("before").count()).toBe(1);
    expect(server.streams).toBe(2);
  });

  it("eight windows share one stream, each is right, and the next one takes over", async () => {
    const context = await browser.newContext({ locale: "en-US" });
    page = await context.newPage();
    await page.goto(server.link());
    await page.getByRole("button", { name: "Use this computer" }).click();
    await page.getByRole("button", { name: "Go to overview" }).click();
    await vi.waitFor(() => expect(server.streams).toBe(1));
    const others: Page[] = [];
    const WINDOWS = 7;
    for (let at = 0; at < WINDOWS; at++) {
      const other = await context.newPage();
      await other.goto(`${server.url}#/overview`);
      await other.getByText("Idle").first().waitFor();
      others.push(other);
    }
    expect(server.streams).toBe(1);
    await server.host.pause(null);
    for (const other of others) await other.getByText("Paused").first().waitFor();
    // The window that has the stream goes.
    await page.close();
    await vi.waitFor(() => expect(server.streams).toBe(1));
    await server.host.resume();
    for (const other of others) await other.getByText("Idle").first().waitFor();
    expect(server.streams).toBe(1);
    await context.close();
    await vi.waitFor(() => expect(server.streams).toBe(0));
  });

  it("says that the runner is gone, and goes on by itself when it is back", async () => {
    await start();
    await page.getByRole("button", { name: "Use this computer" }).click();
    await page.getByRole("button", { name: "Go to overview" }).click();
    await page.getByText("The window can't reach the engine").waitFor({ state: "detached" });
    await server.close();
    await page.getByText("The runner that serves this page doesn't answer.").waitFor();
    await page.getByText("Unknown").first().waitFor();
    await server.listen();
    await page
      .getByText("The runner that serves this page doesn't answer.")
      .waitFor({ state: "detached", timeout: 30_000 });
    await page.getByText("Idle").first().waitFor();
  });

  it("a page of a network in between is named, and nothing of it is shown", async () => {
    server.portal = "<html><script>window.owned = true</script><h1>Welcome to the hotel</h1></html>";
    await start();
    await page.getByText("Something else than the runner answered.").waitFor();
    expect(await page.evaluate(() => "owned" in window)).toBe(false);
    expect(await page.getByText("Welcome to the hotel").count()).toBe(0);
    server.portal = null;
  });

  it("a file is dropped, mended, run and followed", async () => {
    await start();
    await page.getByRole("button", { name: "Use this computer" }).click();
    await page.getByRole("button", { name: "Go to overview" }).click();
    await page.getByRole("link", { name: "Runs" }).click();
    const data = await page.evaluateHandle(() => {
      const transfer = new DataTransfer();
      transfer.items.add(new File(["{}"], "broken.json", { type: "application/json" }));
      return transfer;
    });
    await page.locator(".drop").dispatchEvent("drop", { dataTransfer: data });
    await page.getByText("Problems in this file: 2").waitFor();
    expect(await page.getByRole("button", { name: "Run", exact: true }).isDisabled()).toBe(true);
    await page
      .locator("input[type=file]")
      .setInputFiles({ name: "suite.yaml", mimeType: "text/yaml", buffer: Buffer.from("cases: []") });
    await page.getByRole("table", { name: "What will run" }).waitFor();
    await shot(page, "flow-preview");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByText("0 of 2 done").waitFor();
    expect(page.url()).toContain("#/runs/b-4");
    await page.goBack();
    await page.getByRole("checkbox", { name: /claude-code 2.1/ }).check();
    await page.getByRole("checkbox", { name: /codex 0.9/ }).check();
    await page.getByRole("button", { name: "Compare the two" }).click();
    await page.getByText("migrate-config").waitFor();
    await shot(page, "flow-compare");
    expect(wrong).toEqual([]);
  });

  it("a setting that makes no sense is answered beside its field", async () => {
    await start();
    await page.getByRole("button", { name: "Use this computer" }).click();
    await page.getByRole("button", { name: "Go to overview" }).click();
    await page.getByRole("link", { name: "Settings", exact: true }).click();
    const field = page.getByLabel("CPU while you use it", { exact: true });
    await field.fill("900");
    await field.press("Enter");
    await page.getByText("Limits.cpu_in_use is at most 100.").waitFor();
    await shot(page, "flow-setting-refused");
    await field.fill("40");
    await field.press("Enter");
    await page.getByText("Limits.cpu_in_use is at most 100.").waitFor({ state: "detached" });
    expect(server.host.calls.at(-1)).toEqual(["saveSetting", "limits.cpu_in_use", 40]);
  });
});
