import { cleanup, fireEvent, screen, within } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SAMPLE_DETAIL, SAMPLE_JOBS } from "../../host/scripted-data";
import { ago, DONE, expectAccessible, JOB, NOW, paired, show, withoutLayout } from "../../test/show";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
  withoutLayout();
});

afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

const lines = (count: number) =>
  Array.from({ length: count }, (_, seq) => ({ seq, at: ago(count - seq), stream: "agent", text: `line ${seq}` }));
const live = { snapshot: paired({ state: "running", active: [JOB] }), jobs: [JOB, DONE] };
const log = () => screen.findByRole("region", { name: "Log" });

async function openSample(id: string, tab: string) {
  const view = show({ snapshot: paired(), jobs: SAMPLE_JOBS, details: SAMPLE_DETAIL }, `#/jobs/${id}`);
  await fireEvent.click(await screen.findByRole("tab", { name: new RegExp(`^${tab}`) }));
  return view;
}

describe("a job's log", () => {
  it("shows lines as they come", async () => {
    const { host } = show(live, "#/jobs/j-1");
    expect(within(await log()).getByText("Lines appear here as the job prints them.")).toBeTruthy();
    await vi.waitFor(() => expect(host.watchers).toBe(2));
    host.log("j-1", ["\u001b[31mred\u001b[0m <b>plain</b>"]);
    const red = await screen.findByText("red");
    expect(red.className).toContain("fg-1");
    expect(screen.getByText("<b>plain</b>", { exact: false })).toBeTruthy();
    expect(screen.getByText("1 line", { exact: false })).toBeTruthy();
  });

  it("keeps 100,000 lines in a bounded number of elements", async () => {
    show({ ...live, logs: { "j-1": lines(100_000) } }, "#/jobs/j-1");
    await screen.findByText("100,000 lines", { exact: false });
    expect((await log()).querySelectorAll("*").length).toBeLessThan(250);
  });

  it("finds a text anywhere in the log and steps through its places", async () => {
    show({ ...live, logs: { "j-1": lines(20_000) } }, "#/jobs/j-1");
    await screen.findByText("20,000 lines", { exact: false });
    const search = screen.getByRole("searchbox", { name: "Search the log" });
    await fireEvent.input(search, { target: { value: "LINE 777" } });
    expect(await screen.findByText("1 of 11")).toBeTruthy();
    const box = await log();
    await vi.waitFor(() => expect(box.querySelector(".found")?.textContent).toBe("line 777"), { timeout: 8000 });
    await fireEvent.keyDown(search, { key: "Enter" });
    expect(await screen.findByText("2 of 11")).toBeTruthy();
    await fireEvent.keyDown(search, { key: "Enter", shiftKey: true });
    expect(await screen.findByText("1 of 11")).toBeTruthy();
    await fireEvent.keyDown(search, { key: "Enter", shiftKey: true });
    expect(await screen.findByText("11 of 11")).toBeTruthy();
    await fireEvent.input(search, { target: { value: "nowhere" } });
    expect(await screen.findByText("Not found")).toBeTruthy();
  });

  it("stops to follow when someone searches, and follows again when told to", async () => {
    show({ ...live, logs: { "j-1": lines(500) } }, "#/jobs/j-1");
    const follow = await screen.findByRole("button", { name: "Follow" });
    expect(follow.getAttribute("aria-pressed")).toBe("true");
    await fireEvent.input(screen.getByRole("searchbox"), { target: { value: "line 3" } });
    expect(follow.getAttribute("aria-pressed")).toBe("false");
    await fireEvent.click(follow);
    expect(follow.getAttribute("aria-pressed")).toBe("true");
  });

  it("copies and saves the text without its colours", async () => {
    const writeText = vi.fn(async () => {});
    vi.spyOn(navigator, "clipboard", "get").mockReturnValue({ writeText } as unknown as Clipboard);
    const { host } = show(live, "#/jobs/j-1");
    await vi.waitFor(() => expect(host.watchers).toBe(2));
    host.log("j-1", ["\u001b[31mred\u001b[0m", "plain"]);
    await screen.findByText("red");
    await fireEvent.click(screen.getByRole("button", { name: "Copy the log" }));
    expect(writeText).toHaveBeenCalledWith("red\nplain");
    const saved = vi.spyOn(host, "saveText").mockResolvedValue(null);
    await fireEvent.click(screen.getByRole("button", { name: "Save the log as a file" }));
    await vi.waitFor(() => expect(saved).toHaveBeenCalled());
    expect(saved).toHaveBeenCalledWith("fix-parser.log", "red\nplain");
  });

  it("says where the app kept a text", async () => {
    const { host } = show({ ...live, saved: "/home/ann/Downloads" }, "#/jobs/j-1");
    await vi.waitFor(() => expect(host.watchers).toBe(2));
    host.log("j-1", ["one"]);
    await screen.findByText("one");
    await fireEvent.click(screen.getByRole("button", { name: "Save the log as a file" }));
    const news = await screen.findByText("Saved as /home/ann/Downloads/fix-parser.log");
    expect(news.closest("[role=status]")).toBeTruthy();
    await fireEvent.click(screen.getByRole("button", { name: "Dismiss" }));
    expect(screen.queryByText(/^Saved as/)).toBeNull();
  });

  it("says why a text can't be kept", async () => {
    const failure = { code: "not_saved", message: "can't keep the file in /home/ann", fix: "make room there" };
    const { host } = show({ ...live, refuse: { saveText: failure } }, "#/jobs/j-1");
    await vi.waitFor(() => expect(host.watchers).toBe(2));
    await fireEvent.click(screen.getByRole("button", { name: "Save the log as a file" }));
    expect(await screen.findByText("Can't keep the file in /home/ann.")).toBeTruthy();
  });

  it("says how many lines are gone", async () => {
    const { host } = show(live, "#/jobs/j-1");
    await vi.waitFor(() => expect(host.watchers).toBe(2));
    host.log("j-1", ["late"], 1200);
    expect(await screen.findByText(/earlier lines not kept here: 1,200/)).toBeTruthy();
  });

  it("says why there is no log", async () => {
    const failure = { code: "NOT_FOUND", message: "the log was cleaned up", fix: null };
    show({ ...live, refuse: { watchLog: failure } }, "#/jobs/j-1");
    expect((await screen.findByText("The log was cleaned up.")).closest("[role=alert]")).toBeTruthy();
  });
});

describe("the streams of a log", () => {
  const mixed = [
    { seq: 0, at: ago(3), stream: "runner", text: "scratch folder ready" },
    { seq: 1, at: ago(2), stream: "agent", text: "I read the test" },
    { seq: 2, at: ago(1), stream: "db", text: "ready to accept connections" },
  ];

  it("are named beside each line and switched off one by one", async () => {
    show({ ...live, logs: { "j-1": mixed } }, "#/jobs/j-1");
    const streams = within(await screen.findByRole("group", { name: "Streams" }));
    expect(streams.getAllByRole("button").map((one) => one.textContent)).toEqual(["Runner", "Agent", "db"]);
    await fireEvent.click(streams.getByRole("button", { name: "db" }));
    await vi.waitFor(() => expect(screen.queryByText("ready to accept connections")).toBeNull());
    expect(screen.getByText("I read the test")).toBeTruthy();
    await fireEvent.input(screen.getByRole("searchbox"), { target: { value: "rea" } });
    expect(await screen.findByText("1 of 2")).toBeTruthy();
    await fireEvent.click(streams.getByRole("button", { name: "db" }));
    expect(await screen.findByText("1 of 3")).toBeTruthy();
  });

  it("stay out of the way where there is only one", async () => {
    show({ ...live, logs: { "j-1": lines(3) } }, "#/jobs/j-1");
    await screen.findByText("3 lines", { exact: false });
    expect(screen.queryByRole("group", { name: "Streams" })).toBeNull();
  });
});

describe("the pictures of a job's browser", () => {
  const frame = (seq: number) => ({
    seq,
    at: ago(60 - seq),
    url: `https://acme.example/${seq}`,
    mime: "image/png",
    data: "AAAA",
  });

  it("follow the latest until someone goes back, and again when told to", async () => {
    const { host } = show({ ...live, frames: { "j-1": [frame(1), frame(2)] } }, "#/jobs/j-1");
    await fireEvent.click(await screen.findByRole("tab", { name: "Screen" }));
    expect(await screen.findByText("https://acme.example/2")).toBeTruthy();
    host.frame("j-1", frame(3));
    expect(await screen.findByText("https://acme.example/3")).toBeTruthy();
    await fireEvent.click(screen.getByRole("button", { name: "Previous picture" }));
    expect(await screen.findByText("https://acme.example/2")).toBeTruthy();
    host.frame("j-1", frame(4));
    await vi.waitFor(() => expect(screen.getByRole("slider").getAttribute("max")).toBe("3"));
    expect(screen.getByText("https://acme.example/2")).toBeTruthy();
    await fireEvent.click(screen.getByRole("button", { name: "Live" }));
    expect(await screen.findByText("https://acme.example/4")).toBeTruthy();
  });

  it("say so when one can't be shown", async () => {
    vi.stubGlobal("createImageBitmap", async () => {
      throw new Error("no picture");
    });
    show({ ...live, frames: { "j-1": [frame(1)] } }, "#/jobs/j-1");
    await fireEvent.click(await screen.findByRole("tab", { name: "Screen" }));
    expect(await screen.findByText("This picture can't be shown")).toBeTruthy();
  });
});

describe("a job", () => {
  it("moves between its parts by arrow keys", async () => {
    show(live, "#/jobs/j-1");
    const tabs = await screen.findAllByRole("tab");
    expect(tabs.map((tab) => tab.tabIndex)).toEqual([0, -1, -1, -1, -1, -1]);
    tabs[0]?.focus();
    await fireEvent.keyDown(tabs[0] as Element, { key: "ArrowRight" });
    expect(document.activeElement).toBe(tabs[1]);
    expect(tabs[1]?.getAttribute("aria-selected")).toBe("true");
    expect(await screen.findByText("No pictures")).toBeTruthy();
    await fireEvent.keyDown(tabs[1] as Element, { key: "End" });
    expect(document.activeElement).toBe(tabs[5]);
  });

  it("sums its trace up", async () => {
    await openSample("j-16", "Trace");
    expect(await screen.findByRole("table", { name: "Steps of the agent" })).toBeTruthy();
    expect(screen.getByText("19,702")).toBeTruthy();
    expect(screen.getByText("Steps not shown: 40")).toBeTruthy();
  });

  it("tells what was measured from what wasn't", async () => {
    await openSample("j-14", "Scores");
    const measured = within(await screen.findByRole("table", { name: "Measured" }));
    expect(measured.getByText("2 of 31 tests failed")).toBeTruthy();
    expect(measured.getByText("Failed")).toBeTruthy();
    const not = within(screen.getByRole("table", { name: "Not measured" }));
    expect(not.getByText("no key for the judge model on this machine")).toBeTruthy();
  });

  it("shows what changed, file by file", async () => {
    await openSample("j-16", "Changes");
    const file = within(await screen.findByRole("region", { name: "src/parser.rs" }));
    expect(file.getByText("while self.at < self.text.len()", { exact: false }).closest("tr")?.className).toContain(
      "added",
    );
    expect(screen.getByRole("region", { name: "tests/fields.rs" })).toBeTruthy();
  });

  it("gives the raw result", async () => {
    await openSample("j-16", "Evidence");
    expect(await screen.findByText('"caseId": "rename-public-api"', { exact: false })).toBeTruthy();
  });

  it("says why the surroundings failed and what to do", async () => {
    show({ snapshot: paired(), jobs: SAMPLE_JOBS, details: SAMPLE_DETAIL }, "#/jobs/j-12");
    const alert = await screen.findByRole("alert");
    expect(alert.textContent).toContain("The image registry refused the pull.");
    expect(alert.textContent).toContain("Next: Sign in to the registry");
  });

  it("reads its result again when it ends", async () => {
    const { host } = show(live, "#/jobs/j-1");
    const read = vi.spyOn(host, "jobResult");
    await screen.findByRole("heading", { name: "fix-parser" });
    await vi.waitFor(() => expect(read).toHaveBeenCalledTimes(1));
    host.setJob({ ...JOB, endedAt: ago(0), outcome: "passed" });
    await vi.waitFor(() => expect(read).toHaveBeenCalledTimes(2));
    expect(screen.queryByRole("button", { name: "Stop" })).toBeNull();
  });

  it("says so when there is no such job", async () => {
    show({ snapshot: paired() }, "#/jobs/gone");
    expect((await screen.findByRole("alert")).textContent).toContain("No job gone.");
  });

  it.each(["Log", "Trace", "Scores", "Changes", "Screen", "Evidence"])(
    "has nothing that axe objects to in %s",
    async (tab) => {
      const { container } = await openSample("j-14", tab);
      await vi.waitFor(() => expect(container.querySelector("[role=tabpanel]")?.textContent?.trim()).not.toBe(""));
      await expectAccessible(container);
    },
  );
});
