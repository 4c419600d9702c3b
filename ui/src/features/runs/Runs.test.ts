import { cleanup, fireEvent, screen, within } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SAMPLE_BATCHES, SAMPLE_COMPARISONS, SAMPLE_PREVIEWS } from "../../host/scripted-more";
import { ago, expectAccessible, NOW, paired, RUNNER, show, withoutLayout } from "../../test/show";
import { secondsLeft } from "./eta";

beforeEach(withoutLayout);

afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

const script = {
  snapshot: paired(),
  batches: SAMPLE_BATCHES,
  comparisons: SAMPLE_COMPARISONS,
  previews: SAMPLE_PREVIEWS,
};

async function choose(name: string, content: BlobPart = "{}") {
  const input = (await screen.findByLabelText("Choose a file", { selector: "input" })) as HTMLInputElement;
  Object.defineProperty(input, "files", { configurable: true, value: [new File([content], name)] });
  await fireEvent.change(input);
}

describe("a file to run", () => {
  it("is read, shown and submitted as chosen, and then followed", async () => {
    const { host } = show(script, "#/runs");
    await choose("parser.yaml", "cases: []");
    const cases = within(await screen.findByRole("table", { name: "What will run" }));
    expect(cases.getByText("second-case")).toBeTruthy();
    expect(screen.getByText("Dataset · cases: 2")).toBeTruthy();
    await fireEvent.input(screen.getByLabelText("Harness"), { target: { value: "shell@1" } });
    await fireEvent.change(screen.getByLabelText("Where it runs"), { target: { value: RUNNER.target } });
    await fireEvent.input(screen.getByLabelText("Label"), { target: { value: "first try" } });
    await fireEvent.click(screen.getByRole("button", { name: "Run" }));
    expect(host.calls).toEqual([
      ["previewFile", "parser.yaml", 9],
      ["submitFile", "parser.yaml", "shell@1", RUNNER.target, "first try"],
    ]);
    expect(await screen.findByRole("heading", { name: "first try" })).toBeTruthy();
    expect(await screen.findByText("0 of 2 done")).toBeTruthy();
  });

  it("can be dropped", async () => {
    const { host } = show(script, "#/runs");
    const place = (await screen.findByText(/Drop a file/)).parentElement as HTMLElement;
    const drop = new Event("drop", { bubbles: true, cancelable: true });
    Object.defineProperty(drop, "dataTransfer", { value: { files: [new File(["{}"], "one.json")] } });
    place.dispatchEvent(drop);
    expect(await screen.findByRole("table", { name: "What will run" })).toBeTruthy();
    expect(host.calls).toEqual([["previewFile", "one.json", 2]]);
    expect(drop.defaultPrevented).toBe(true);
  });

  it("is not run while something in it is wrong; each problem has its place", async () => {
    show(script, "#/runs");
    await choose("broken.json");
    const alert = await screen.findByRole("alert");
    expect(alert.textContent).toContain("Problems in this file: 2");
    expect(alert.textContent).toContain("$.cases[2].id");
    expect(alert.textContent).toContain("Unknown grader `test-pas`; did you mean `tests-pass`.");
    expect((screen.getByRole("button", { name: "Run" }) as HTMLButtonElement).disabled).toBe(true);
  });

  it("is refused in words when it is huge or no text", async () => {
    const { host } = show(script, "#/runs");
    await choose("film.json", new Uint8Array([0xff, 0xfe, 0x00, 0xd8]));
    expect((await screen.findByRole("alert")).textContent).toContain("Film.json can't be read as text.");
    await choose("huge.json", "x".repeat(10_000_001));
    await vi.waitFor(() => expect(screen.getByRole("alert").textContent).toContain("Huge.json is larger than 10 MB."));
    expect(host.calls).toEqual([]);
  });

  it("has no place where this app runs no hub", async () => {
    show({ snapshot: paired({ runners: [{ ...RUNNER, embedded: false, hub: "https://team.example" }] }) }, "#/runs");
    expect(await screen.findByText("Runs live on the hub inside this app")).toBeTruthy();
    expect(screen.queryByText(/Drop a file/)).toBeNull();
  });
});

describe("the batches", () => {
  it("show their progress and are compared, older against newer", async () => {
    show(script, "#/runs");
    const list = within(await screen.findByRole("list", { name: "Batches" }));
    expect(list.getByText("4 of 6 done")).toBeTruthy();
    const button = () => screen.getByRole("button", { name: "Compare the two" }) as HTMLButtonElement;
    expect(button().disabled).toBe(true);
    await fireEvent.click(list.getByRole("checkbox", { name: "Compare “parser suite, claude-code 2.1”" }));
    await fireEvent.click(list.getByRole("checkbox", { name: "Compare “parser suite, codex 0.9”" }));
    await fireEvent.click(button());
    expect(await screen.findByRole("heading", { name: "Compare two batches" })).toBeTruthy();
    const group = async (name: RegExp) => within(await screen.findByRole("region", { name }));
    expect((await group(/^Fixed 1/)).getByText("rename-api")).toBeTruthy();
    expect((await group(/^Broken 1/)).getByText("migrate-config")).toBeTruthy();
    expect((await group(/^Changed 1/)).getByText("flaky-socket")).toBeTruthy();
    expect(screen.getByText("The same outcome in both: 1")).toBeTruthy();
  });

  it("follow the hub until all is done, with the time that is left", async () => {
    vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: NOW });
    const [first] = SAMPLE_BATCHES;
    if (first === undefined) throw new Error("BUG: no sample");
    const batch = { ...first.batch, submittedAt: ago(120) };
    const { host } = show({ ...script, batches: [{ ...first, batch }] }, "#/runs/b-3");
    await vi.waitFor(() => expect(screen.getByText("4 of 6 done")).toBeTruthy());
    expect(screen.getByText(/about 1 m 0\d s left/)).toBeTruthy();
    host.setBatch({ ...first, batch: { ...batch, done: 6, passed: 4 } });
    await vi.advanceTimersByTimeAsync(2000);
    await vi.waitFor(() => expect(screen.getByText("6 of 6 done")).toBeTruthy());
    expect(screen.queryByRole("button", { name: "Cancel batch" })).toBeNull();
    const asked = vi.spyOn(host, "batch");
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked).not.toHaveBeenCalled();
  });

  it("are cancelled after a question", async () => {
    const { host } = show(script, "#/runs/b-3");
    await fireEvent.click(await screen.findByRole("button", { name: "Cancel batch" }));
    const dialog = within(await screen.findByRole("dialog", { name: "Cancel “parser suite, claude-code 2.1”?" }));
    await fireEvent.click(dialog.getByRole("button", { name: "Cancel batch" }));
    expect(host.calls).toEqual([["cancelBatch", "b-3"]]);
    expect(await screen.findByText("6 of 6 done")).toBeTruthy();
  });

  it("are walked through by arrow keys, filtered and sorted", async () => {
    show(script, "#/runs/b-3");
    const table = await screen.findByRole("table", { name: "Results" });
    const names = () => [...table.querySelectorAll<HTMLElement>("[data-row]")];
    expect(names().map((one) => one.tabIndex)).toEqual([0, -1, -1, -1, -1, -1]);
    names()[0]?.focus();
    await fireEvent.keyDown(names()[0] as Element, { key: "End" });
    expect(document.activeElement?.textContent).toBe("add-flag");
    await fireEvent.click(within(table).getByRole("button", { name: /Case/ }));
    expect(names().map((one) => one.textContent)[0]).toBe("add-flag");
    await fireEvent.change(screen.getByRole("combobox", { name: "Outcome to show" }), { target: { value: "failed" } });
    await vi.waitFor(() => expect(names().map((one) => one.textContent)).toEqual(["flaky-socket"]));
  });

  it("say so when there is no such batch", async () => {
    show(script, "#/runs/gone");
    expect((await screen.findByRole("alert")).textContent).toContain("No batch gone.");
  });

  it("estimate nothing before anything ended or after all has", () => {
    const at = (done: number) =>
      secondsLeft({ ...SAMPLE_BATCHES[0]?.batch, total: 10, done, submittedAt: ago(60) } as never, NOW);
    expect([at(0), at(2), at(10)]).toEqual([null, 240, null]);
  });

  it.each(["#/runs", "#/runs/b-3", "#/runs/b-2/b-3"])("have nothing that axe objects to at %s", async (hash) => {
    const { container } = show(script, hash);
    await vi.waitFor(() => expect(container.querySelectorAll("h2").length).toBeGreaterThan(0));
    await vi.waitFor(() => expect(container.textContent).toMatch(/done|rename-api/));
    if (hash === "#/runs") {
      await choose("broken.json");
      await screen.findByRole("alert");
    }
    await expectAccessible(container);
  });
});
