import { join } from "node:path";
import type { Page } from "playwright-core";
import { type PreviewServer, preview } from "vite";

export interface Screen {
  name: string;
  /** Of the demo: the query, then the page. */
  address: string;
  act?: (page: Page) => Promise<unknown>;
}

const tab = (name: RegExp) => (page: Page) => page.getByRole("tab", { name }).click();

/** Every screen of the window, by the demo's scripted engine. */
export const SCREENS: Screen[] = [
  { name: "first", address: "fresh#/overview" },
  { name: "first-team", address: "fresh#/overview", act: (page) => page.locator("li button").nth(1).click() },
  { name: "first-paste", address: "fresh#/overview", act: (page) => page.locator("li button").nth(2).click() },
  { name: "overview", address: "still#/overview" },
  { name: "overview-attention", address: "still&ask&hubpause&update&denied#/overview" },
  { name: "overview-waiting", address: "still&waiting&offline#/overview" },
  { name: "overview-removed", address: "still&removed#/overview" },
  { name: "link", address: "still&link#/overview" },
  { name: "unpair", address: "still#/overview", act: (page) => page.locator("button.danger").first().click() },
  {
    name: "saved",
    address: "still&saved#/jobs/j-17",
    act: async (page) => {
      await page.locator(".toggles button").last().click();
      await page.locator(".news span").waitFor();
    },
  },
  { name: "jobs", address: "still#/jobs" },
  { name: "job-log", address: "still#/jobs/j-17" },
  { name: "job-screen", address: "still#/jobs/j-17", act: tab(/Screen|화면|\[Sçréé/) },
  { name: "job-trace", address: "still#/jobs/j-16", act: tab(/Trace|추적|트레이스|\[Tråç/) },
  { name: "job-scores", address: "still#/jobs/j-14", act: tab(/Scores|점수|\[Sçöré/) },
  { name: "job-changes", address: "still#/jobs/j-16", act: tab(/Changes|변경|\[Chå/) },
  { name: "job-evidence", address: "still#/jobs/j-16", act: tab(/Evidence|근거|\[Evî/) },
  { name: "job-infra", address: "still#/jobs/j-12" },
  { name: "runs", address: "still#/runs" },
  {
    name: "runs-preview",
    address: "still#/runs",
    act: async (page) => {
      await page
        .locator("input[type=file]")
        .setInputFiles({ name: "broken.json", mimeType: "application/json", buffer: Buffer.from("{}") });
      await page.locator(".problems").waitFor();
    },
  },
  { name: "batch", address: "still#/runs/b-3" },
  { name: "compare", address: "still#/runs/b-2/b-3" },
  { name: "settings", address: "still#/settings" },
  { name: "diagnostics", address: "still#/diagnostics" },
];

/** Serves the built demo under the content security policy of the app. */
export async function serveDemo(): Promise<{ server: PreviewServer; url: string }> {
  const root = join(import.meta.dirname, "..");
  const server = await preview({
    root,
    mode: "demo",
    logLevel: "error",
    build: { outDir: join(root, "..", "target", "ui-demo") },
    preview: { port: 0, strictPort: false },
  });
  const address = server.httpServer.address();
  if (address === null || typeof address === "string") throw new Error("BUG: the demo is served on no port");
  return { server, url: `http://127.0.0.1:${address.port}/` };
}

/** Goes to a screen and waits until it stands still. */
export async function show(page: Page, screen: Screen): Promise<void> {
  await page.locator("h1").first().waitFor();
  await page.waitForFunction(() => document.querySelector(".skeleton") === null);
  if (screen.act !== undefined) await screen.act(page);
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
}
