import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { expectAccessible, launch, open, shot } from "./browser";

// A built `everdict-runner` with the pages in it; a debug build that lies around may be of another day.
const BINARY = process.env.EVERDICT_RUNNER_BIN ?? "";

const CASE = {
  id: "six-times-seven",
  env: { kind: "prompt" },
  task: "What is six times seven?",
  expected: "42",
  graders: [{ id: "answer-match", config: { mode: "contains" } }],
  timeoutSec: 60,
};

/** `everdict-runner ui` in a home of its own. */
class Runner {
  readonly home = mkdtempSync(join(tmpdir(), "everdict-ui-"));
  readonly #process: ChildProcess;
  #said = "";

  constructor() {
    this.#process = spawn(BINARY, ["ui"], {
      env: {
        PATH: process.env.PATH,
        HOME: this.home,
        EVERDICT_HOME: this.home,
        DBUS_SESSION_BUS_ADDRESS: "unix:path=/nonexistent",
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const pipe of [this.#process.stdout, this.#process.stderr]) {
      pipe?.on("data", (part) => {
        this.#said += String(part);
      });
    }
  }

  async link(): Promise<string> {
    const TRIES = 300;
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const link = /http:\/\/127\.0\.0\.1:\d+\/#ticket=[\w.~-]+/.exec(this.#said)?.[0];
      if (link !== undefined) return link;
      if (this.#process.exitCode !== null) break;
      await new Promise((resume) => setTimeout(resume, 100));
    }
    throw new Error(`no link: ${this.#said}`);
  }

  async stop(): Promise<void> {
    const ended = new Promise((end) => this.#process.once("exit", end));
    if (this.#process.exitCode === null) {
      this.#process.kill("SIGINT");
      this.#process.kill("SIGINT");
      await ended;
    }
    rmSync(this.home, { recursive: true, force: true });
  }
}

describe("the page of `everdict-runner ui`", () => {
  let browser: Browser;
  let runner: Runner;
  let page: Page;
  let wrong: string[];

  beforeAll(async () => {
    if (BINARY === "")
      throw new Error("EVERDICT_RUNNER_BIN names no everdict-runner: `make test` builds one and names it");
    browser = await launch();
  });

  afterAll(() => browser?.close());

  beforeEach(() => {
    runner = new Runner();
  });

  afterEach(async () => {
    await page?.close();
    await runner.stop();
  });

  async function paired(): Promise<void> {
    ({ page, wrong } = await open(browser, await runner.link()));
    await page.getByRole("button", { name: "Use this computer" }).click();
    // No keyring in this session: the token goes into a file only after the question.
    await page.getByRole("dialog").waitFor();
    await shot(page, "runner-without-keyring");
    await page.getByRole("dialog").getByRole("button").last().click();
    await page.getByRole("region", { name: "This machine is paired" }).waitFor();
    // The refusal without a keyring, which was answered; nothing else went wrong.
    expect(wrong.splice(0).every((text) => text.includes("422"))).toBe(true);
  }

  it("goes from nothing to a verdict, with log, scores and evidence", async () => {
    await paired();
    await page.getByRole("button", { name: "Run a sample case" }).click();
    await page.getByRole("heading", { name: "sample" }).waitFor();
    await page.getByText("the answer is 42").waitFor();
    await page.locator("header").getByText("Passed").waitFor();
    await shot(page, "runner-job");
    await page.getByRole("tab", { name: /Scores/ }).click();
    await page.getByRole("table", { name: "Measured" }).getByText("answer-match").waitFor();
    await page.getByRole("tab", { name: "Evidence" }).click();
    await page.locator("pre").getByText('"caseId": "sample"').waitFor();
    await expectAccessible(page, "job");
    expect(wrong).toEqual([]);
  });

  it("runs a file, shows it as a batch, and refuses a broken one with its place", async () => {
    await paired();
    await page.getByRole("button", { name: "Run a sample case" }).click();
    await page.getByRole("link", { name: "Runs", exact: true }).click();
    const input = page.locator("input[type=file]");
    const file = (value: unknown) => ({
      name: "case.json",
      mimeType: "application/json",
      buffer: Buffer.from(JSON.stringify(value)),
    });
    await input.setInputFiles(file({ ...CASE, graders: [{ id: 7 }] }));
    await page.locator(".problems, [role=alert]").first().waitFor();
    await input.setInputFiles(file({ ...CASE, graders: [{ id: "vibes" }] }));
    await page.getByText(/no grader is named `vibes`; known are/i).waitFor();
    await input.setInputFiles(file({ harness: { id: "nowhere", version: "1.0.0" }, case: CASE }));
    await page.getByText(/nowhere@1\.0\.0 is not registered on this computer's hub/i).waitFor();
    expect(await page.getByRole("button", { name: "Run", exact: true }).isDisabled()).toBe(true);
    await shot(page, "runner-broken-file");
    await input.setInputFiles(file(CASE));
    await page.getByRole("table", { name: "What will run" }).getByText("six-times-seven").waitFor();
    await page.getByLabel("Harness", { exact: true }).fill("nowhere@1.0.0");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    // A harness that this hub doesn't have is refused before anything runs.
    await page.getByText(/harness: nowhere@1\.0\.0 is not registered in this workspace/).waitFor();
    await shot(page, "runner-unknown-harness");
    expect(wrong.splice(0).every((text) => /4\d\d/.test(text))).toBe(true);
    await page.getByLabel("Harness", { exact: true }).fill("scripted@1.0.0");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByText("1 of 1 done").waitFor({ timeout: 30_000 });
    await shot(page, "runner-batch");
    expect(wrong).toEqual([]);
  });

  it("shows the checks, the disk, the settings and a report without a token", async () => {
    await paired();
    await page.getByRole("button", { name: "Go to overview" }).click();
    await page.getByRole("link", { name: /^Diagnostics/ }).click();
    await page.getByRole("region", { name: "Checks" }).getByRole("listitem").first().waitFor();
    await page.getByRole("region", { name: "Disk" }).getByRole("listitem").first().waitFor();
    await shot(page, "runner-diagnostics");
    await expectAccessible(page, "diagnostics");
    await page.getByRole("link", { name: "Settings", exact: true }).click();
    await page.getByLabel("Cases at the same time").waitFor();
    await shot(page, "runner-settings");
    await expectAccessible(page, "settings");
    const kept = readdirSync(runner.home, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name)).toString("latin1"));
    const token = kept.map((text) => /rnr_[A-Za-z0-9_-]{16,}/.exec(text)?.[0]).find((found) => found !== undefined);
    expect(token).toBeDefined();
    expect(await page.content()).not.toContain(token);
    expect(wrong).toEqual([]);
  });
});
