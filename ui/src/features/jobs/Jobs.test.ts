import { cleanup, fireEvent, screen, within } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ago, DONE, expectAccessible, JOB, NOW, paired, show, withoutLayout } from "../../test/show";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
  withoutLayout();
});

afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const script = { snapshot: paired({ state: "running", active: [JOB] }), jobs: [JOB, DONE] };

describe("the jobs", () => {
  it("lists live and ended jobs apart, with word, time, tokens and cost", async () => {
    show(script, "#/jobs");
    const table = within(await screen.findByRole("table", { name: "Jobs" }));
    const rows = table.getAllByRole("row").map((row) => row.textContent?.replace(/\s+/g, " ").trim());
    expect(rows[1]).toBe("Running now");
    expect(rows[2]).toMatch(/fix-parser claude-code@2.1 · local Running ?2 m ago ?2 m 10 s ?1,200 ?\$0.0500/);
    expect(rows[3]).toBe("History");
    expect(rows[4]).toMatch(/hello .* Passed ?6 m ago ?10 s/);
  });

  it("moves between rows by arrow keys, with one stop of the Tab key", async () => {
    show(script, "#/jobs");
    const links = within(await screen.findByRole("table", { name: "Jobs" })).getAllByRole("link");
    expect(links.map((link) => link.tabIndex)).toEqual([0, -1]);
    links[0]?.focus();
    await fireEvent.keyDown(links[0] as Element, { key: "ArrowDown" });
    expect(document.activeElement).toBe(links[1]);
    await vi.waitFor(() => expect(links.map((link) => link.tabIndex)).toEqual([-1, 0]));
    await fireEvent.keyDown(links[1] as Element, { key: "Home" });
    expect(document.activeElement).toBe(links[0]);
  });

  it("moves a job into the history when it ends", async () => {
    const { host } = show(script, "#/jobs");
    await screen.findByRole("table", { name: "Jobs" });
    host.setJob({ ...JOB, endedAt: ago(0), outcome: "timed-out" });
    expect(await screen.findByText("Timed out")).toBeTruthy();
    expect(screen.queryByText("Running now")).toBeNull();
  });

  it("opens a job by a press anywhere in its row", async () => {
    show(script, "#/jobs");
    await fireEvent.click(await screen.findByText("Passed"));
    expect(await screen.findByRole("heading", { name: "hello" })).toBeTruthy();
  });

  it("says what will be here, and offers the first one", async () => {
    const { host } = show({ snapshot: paired() }, "#/jobs");
    await fireEvent.click(await screen.findByRole("button", { name: "Run a sample case" }));
    expect(host.calls).toEqual([["submitSample"]]);
    expect(await screen.findByText("hello-runner")).toBeTruthy();
  });

  it("has nothing that axe objects to", async () => {
    const { container } = show(script, "#/jobs");
    await screen.findByRole("table", { name: "Jobs" });
    await expectAccessible(container);
  });
});
