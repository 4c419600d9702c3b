import { readdirSync, readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import type { PreviewServer } from "vite";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { LogBatch } from "../src/host/generated/contract";
import { launch, open, shot } from "./browser";
import { serveDemo } from "./screens";

const LINES = 2_000_000;
const BATCH = 2000;
const MB = 1_000_000;
const KB = 1024;
// What the web view may grow by with all lines in it.
const MOST_MB = 100;

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

/** The proportional memory of the page's own process, in bytes; this browser has one page. */
function pageBytes(): number {
  const sizes = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
        if (!command.includes("--type=renderer") || !ours(pid)) return 0;
        const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
        return Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? 0) * KB;
      } catch {
        return 0;
      }
    });
  return Math.max(...sizes);
}

/** Whether a process descends from this one. */
function ours(pid: string): boolean {
  for (let at = pid; at !== "0" && at !== "1"; ) {
    if (at === String(process.pid)) return true;
    const stat = readFileSync(`/proc/${at}/stat`, "utf8");
    at = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1] ?? "0";
  }
  return false;
}

async function collected(page: Page): Promise<number> {
  const client = await page.context().newCDPSession(page);
  for (let i = 0; i < 3; i++) await client.send("HeapProfiler.collectGarbage");
  await client.detach();
  return pageBytes();
}

interface Player {
  scriptedHost: { feed: (batch: LogBatch) => void; watchers: number };
}

it("two million lines grow the page by less than 100 MB, stay live while they come, and stay within reach", async () => {
  const { page, wrong } = await open(browser, `${url}?still&empty#/jobs/j-17`);
  await page.getByRole("tab", { name: "Log" }).waitFor();
  const before = await collected(page);
  const slowest = await page.evaluate(
    async ([lines, batch]) => {
      const { scriptedHost } = globalThis as unknown as Player;
      let slow = 0;
      for (let from = 0; from < lines; from += batch) {
        const at = new Date().toISOString();
        const lot = Array.from({ length: batch }, (_, i) => ({
          seq: from + i,
          at,
          stream: (from + i) % 10 === 0 ? "db" : "agent",
          text: `${from + i} \u001b[34m[step]\u001b[0m reading src/module_${(from + i) % 977}/part.rs: checked ${(from + i) * 7} of them`,
        }));
        const began = performance.now();
        scriptedHost.feed({ firstSeq: from, lines: lot });
        await new Promise((drawn) => requestAnimationFrame(drawn));
        slow = Math.max(slow, performance.now() - began);
      }
      return slow;
    },
    [LINES, BATCH] as const,
  );
  await page.getByText("2,000,000 lines").waitFor();
  await page.getByText(`${LINES - 1} `).waitFor();
  await shot(page, "log-two-million");
  const grown = (await collected(page)) - before;
  console.log(
    JSON.stringify({ lines: LINES, log_growth_mb: Math.round(grown / MB), slowest_batch_ms: Math.round(slowest) }),
  );
  expect(grown).toBeLessThan(MOST_MB * MB);
  // A second without a frame is what a person calls stuck.
  expect(slowest).toBeLessThan(1000);

  const log = page.getByRole("region", { name: "Log" });
  await log.press("Control+Home");
  await log.getByText(/^0 /).waitFor();
  await page.mouse.move(600, 500);
  await page.mouse.wheel(0, 120);
  await log.getByText(/^7 /).waitFor();
  await page.getByRole("searchbox").fill("1234567 ");
  await page.getByText("1 of 1", { exact: true }).waitFor();
  await log.locator(".found").getByText("1234567").waitFor();
  await shot(page, "log-two-million-found");
  await page.getByRole("button", { name: "db" }).click();
  await page.getByRole("button", { name: "Wrap" }).click();
  await log.press("Control+End");
  await page.getByText(`${LINES - 1} `).waitFor();
  const after = (await collected(page)) - before;
  expect(after).toBeLessThan(MOST_MB * MB);
  expect(wrong).toEqual([]);
}, 300_000);
