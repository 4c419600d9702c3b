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
    expect(rows[2]).toMatch(
      /fix-parser claude-code@2.1 Running ?local ?on workbench ?2 m ago ?2 m 10 s ?1,200 ?\$0.0500/,
    );
    expect(rows[3]).toBe("History");
    expect(rows[4]).toMatch(/hello .* Passed ?local ?on workbench ?6 m ago ?10 s/);
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
    await fireEvent.click(within(await screen.findByRole("table", { name: "Jobs" })).getByText("Passed"));
    expect(await screen.findByRole("heading", { name: "hello" })).toBeTruthy();
  });

  it("says what will be here, and offers the first one", async () => {
    const { host } = show({ snapshot: paired() }, "#/jobs");
    await fireEvent.click(await screen.findByRole("button", { name: "Run a sample case" }));
    expect(host.calls).toEqual([["submitSample"]]);
    expect(await screen.findByText("hello-runner")).toBeTruthy();
  });

  it("keeps what fits the text and the outcome, and says how much that is", async () => {
    show(script, "#/jobs");
    await screen.findByRole("table", { name: "Jobs" });
    await fireEvent.input(screen.getByRole("searchbox"), { target: { value: "HELL" } });
    expect(await screen.findByText("1 of 2")).toBeTruthy();
    expect(screen.queryByText("fix-parser")).toBeNull();
    await fireEvent.change(screen.getByRole("combobox", { name: "Outcome to show" }), { target: { value: "failed" } });
    expect(await screen.findByText("Nothing fits")).toBeTruthy();
    await fireEvent.click(screen.getByRole("button", { name: "Show all" }));
    expect(await screen.findByText("fix-parser")).toBeTruthy();
  });

  it("sorts by a column, both ways, with those without a value last", async () => {
    const jobs = [3, 1, 2].map((tokens) => ({ ...DONE, id: `j-${tokens}`, caseId: `case-${tokens}`, tokens }));
    show({ snapshot: paired(), jobs: [{ ...DONE, id: "j-9", caseId: "case-9", tokens: null }, ...jobs] }, "#/jobs");
    const table = within(await screen.findByRole("table", { name: "Jobs" }));
    const names = () => table.getAllByRole("link").map((link) => link.textContent);
    const head = table.getByRole("columnheader", { name: /Tokens/ });
    expect(head.getAttribute("aria-sort")).toBeNull();
    await fireEvent.click(within(head).getByRole("button"));
    expect(head.getAttribute("aria-sort")).toBe("descending");
    expect(names()).toEqual(["case-3", "case-2", "case-1", "case-9"]);
    await fireEvent.click(within(head).getByRole("button"));
    expect(head.getAttribute("aria-sort")).toBe("ascending");
    expect(names()).toEqual(["case-1", "case-2", "case-3", "case-9"]);
  });

  it("has nothing that axe objects to", async () => {
    const { container } = show(script, "#/jobs");
    await screen.findByRole("table", { name: "Jobs" });
    await expectAccessible(container);
  });
});
