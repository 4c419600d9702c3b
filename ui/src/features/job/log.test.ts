import { describe, expect, it, vi } from "vitest";
import { marked, plainText, spans } from "./ansi";
import { cells } from "./cells";
import { parseDiff } from "./diff";
import { evidenceOf } from "./evidence";
import { LogStore } from "./log-store";
import { Scroll } from "./scroll";

const E = "\u001b";
const at = "2026-03-01T12:00:00Z";
const batch = (from: number, texts: string[], gap?: number) => ({
  firstSeq: from,
  lines: texts.map((text, i) => ({ seq: from + i, at, stream: "agent", text })),
  ...(gap === undefined ? {} : { gap }),
});
const many = (from: number, count: number) =>
  batch(
    from,
    Array.from({ length: count }, (_, i) => `line ${from + i}`),
  );

const texts = (store: LogStore) => store.between(0, store.rows).lines.map((line) => line.text);

describe("a log", () => {
  it("keeps two million lines to scroll and search in, packed into bounded memory", async () => {
    const store = new LogStore();
    for (let from = 0; from < 2_000_000; from += 10_000) {
      store.push(many(from, 10_000));
      // A web view takes a turn between two batches too.
      await new Promise((resume) => setImmediate(resume));
    }
    await vi.waitFor(() => expect(store.bytes).toBeLessThan(40_000_000), { timeout: 20_000 });
    expect(store.length).toBe(2_000_000);
    expect(store.rows).toBe(2_000_000);
    store.between(1_000_000, 1_000_001);
    await vi.waitFor(() => expect(store.between(1_000_000, 1_000_000).lines[0]?.text).toBe("line 1000000"));
    store.search("line 777777");
    await vi.waitFor(() => expect(store.searching).toBe(false), { timeout: 20_000 });
    expect(store.found).toEqual([777_777]);
    const whole = await store.text();
    expect(whole.startsWith("line 0\nline 1\n")).toBe(true);
    expect(whole.endsWith("\nline 1999999")).toBe(true);
  }, 60_000);

  it("drops the oldest when even that is full, and counts them", () => {
    const store = new LogStore(undefined, undefined, 10_000);
    let rows = 0;
    for (let from = 0; from < 100_000; from += 1000) rows += store.push(many(from, 1000));
    expect(store.length).toBeLessThanOrEqual(10_000);
    expect(store.length + store.leftOut).toBe(100_000);
    expect(rows).toBe(store.leftOut);
    expect(texts(store).at(-1)).toBe("line 99999");
    expect(store.lineAt(0)).toBe(store.first);
  });

  it("is bounded by its size as well", () => {
    const store = new LogStore(undefined, 4_000_000);
    for (let i = 0; i < 1000; i++) store.push(batch(i, ["x".repeat(16_000)]));
    expect(store.bytes).toBeLessThan(5_000_000);
    expect(texts(store).at(-1)).toHaveLength(16_000);
  });

  it("cuts a line that is longer than anybody reads", () => {
    const store = new LogStore();
    store.push(batch(0, ["x".repeat(1_000_000)]));
    expect(texts(store)[0]?.length).toBeLessThan(20_000);
  });

  it("passes over lines that it has and counts the ones that are gone, also when all is sent anew", () => {
    const store = new LogStore();
    store.push(batch(0, ["a", "b"]));
    store.push(batch(1, ["b", "c"]));
    store.push(batch(13, ["d"], 10));
    // Shown again after it was hidden: the engine counts what it no longer has from the start.
    store.push(batch(12, ["x", "d", "e"], 12));
    expect(store.text()).toBe("a\nb\nc\nd\ne");
    expect(store.leftOut).toBe(10);
  });

  it("finds the line of each row when lines wrap, also after the oldest went", () => {
    const store = new LogStore(undefined, undefined, 4100);
    store.layOut(10, []);
    store.push(batch(0, ["", "x".repeat(25), "y".repeat(10), `${E}[31m${"z".repeat(11)}${E}[0m`]));
    expect(store.rows).toBe(1 + 3 + 1 + 2);
    expect([0, 1, 3, 4, 5, 6, 99].map((row) => store.lineAt(row))).toEqual([0, 1, 1, 2, 3, 3, 3]);
    expect([0, 1, 2, 3].map((number) => store.rowOf(number))).toEqual([0, 1, 4, 5]);
    const dropped = store.push(batch(4, Array(4097).fill("short")));
    expect(dropped).toBe(7 + 4092);
    expect(store.rowOf(store.first + 1)).toBe(1);
    store.layOut(null, []);
    expect(store.rows).toBe(store.length);
  });

  it("leaves the lines of a hidden stream out of rows, places and copies", () => {
    const store = new LogStore();
    store.push({
      firstSeq: 0,
      lines: ["agent", "db", "agent", "db"].map((stream, seq) => ({ seq, at, stream, text: `${stream} ${seq}` })),
    });
    expect(store.streams).toEqual(["agent", "db"]);
    store.search("agent");
    expect(store.layOut(null, ["agent"])).toBe(true);
    expect(store.rows).toBe(2);
    expect(texts(store)).toEqual(["db 1", "db 3"]);
    expect(store.lineAt(1)).toBe(3);
    expect(store.found).toEqual([]);
    expect(store.text()).toBe("db 1\ndb 3");
    expect(store.layOut(null, ["agent"])).toBe(false);
  });

  it("goes on finding in lines that come", () => {
    const store = new LogStore();
    store.push(batch(0, ["ERROR one", "two", `${E}[31merr${E}[0mor three`]));
    store.search("error");
    expect(store.found).toEqual([0, 2]);
    store.push(batch(3, ["four", "an error"]));
    expect(store.found).toEqual([0, 2, 4]);
  });

  it("keeps what a line holds when it is packed", async () => {
    const store = new LogStore();
    const odd = ["", " lead", "tab\tand\r\r", "é 한글 😀", `${E}[31mred${E}[0m`];
    store.push(batch(0, [...odd, "two\nin one"]));
    for (let from = 6; from < 100_006; from += 10_000) store.push(many(from, 10_000));
    await vi.waitFor(() => expect(store.between(0, 0).lines[0]?.text).toBeNull());
    await vi.waitFor(() => expect(store.between(0, 5).lines.map((line) => line.text)).toEqual([...odd, "two in one"]));
  });

  it("counts wide characters as two cells", () => {
    expect(cells("abc")).toBe(3);
    expect(cells("한글")).toBe(4);
    expect(cells("é")).toBe(1);
  });
});

describe("a list that is longer than a web engine's box may be high", () => {
  const page = 500;
  const total = 40_000_000;

  it("is what the box is while it fits", () => {
    const scroll = new Scroll(1000);
    scroll.moved(300, 900, page);
    expect([scroll.top, scroll.boxFor(400, 900, page), scroll.sheet(900)]).toEqual([300, 400, 900]);
  });

  it("moves pixel by pixel under the wheel, and by share under the bar", () => {
    const scroll = new Scroll(8_000_000);
    scroll.moved(120, total, page);
    expect(scroll.top).toBe(120);
    scroll.moved(4_000_000, total, page);
    expect(scroll.top / total).toBeCloseTo(0.5, 3);
    const before = scroll.top;
    scroll.moved(4_000_060, total, page);
    expect(scroll.top - before).toBe(60);
    scroll.moved(8_000_000 - page, total, page);
    expect(scroll.top).toBe(total - page);
    scroll.moved(0, total, page);
    expect(scroll.top).toBe(0);
  });

  it("says when box and list have come apart", () => {
    const scroll = new Scroll(8_000_000);
    expect(scroll.adrift(total, page)).toBe(false);
    for (let at = 400; at <= 4000; at += 400) scroll.moved(at, total, page);
    expect(scroll.top).toBe(4000);
    expect(scroll.adrift(total, page)).toBe(true);
    scroll.physical = scroll.boxFor(scroll.top, total, page);
    expect(scroll.adrift(total, page)).toBe(false);
  });
});

describe("the evidence of a result", () => {
  it("is picked out of what was sent, without its long texts", () => {
    const raw = JSON.stringify({
      caseId: "x",
      snapshot: { kind: "repo", headSha: "4be91f2", diff: "x".repeat(1000), changedFiles: ["a", "b"] },
      provenance: { runner: "workbench" },
      recordingRef: null,
    });
    expect(evidenceOf(raw)).toEqual({
      snapshot: [
        { name: "kind", value: "repo" },
        { name: "headSha", value: "4be91f2" },
        { name: "changedFiles", value: "a, b" },
      ],
      refs: [{ name: "provenance.runner", value: "workbench" }],
    });
  });

  it("is nothing of a text that was cut short or is none", () => {
    for (const raw of ['{"caseId": ', "[]", "null", ""]) expect(evidenceOf(raw)).toEqual({ snapshot: [], refs: [] });
  });
});

describe("terminal colours", () => {
  it("become spans of text", () => {
    const parts = spans(`a${E}[1;31mb${E}[22mc${E}[96md${E}[0me`);
    expect(parts.map((part) => [part.text, part.fg, part.bold])).toEqual([
      ["a", null, false],
      ["b", 1, true],
      ["c", 1, false],
      ["d", 14, false],
      ["e", null, false],
    ]);
  });

  it("take the nearest of the sixteen for others", () => {
    expect(spans(`${E}[38;5;196mx`)[0]?.fg).toBe(9);
    expect(spans(`${E}[38;2;0;120;0mx`)[0]?.fg).toBe(2);
    expect(spans(`${E}[38;5;12mx`)[0]?.fg).toBe(12);
  });

  it("leave nothing of other sequences, links and control characters", () => {
    expect(plainText(`a${E}[2Kb${E}]8;;https://x.example${E}\\c${E}]0;title\u0007d\u0008\u0000e`)).toBe("abcde");
    expect(plainText("10 %\r50 %\r100 %")).toBe("100 %");
    expect(plainText("dos line\r")).toBe("dos line");
  });

  it("keep a found text marked across colours", () => {
    const parts = marked(spans(`er${E}[31mror${E}[0m here`), "error");
    expect(parts.filter((part) => part.found).map((part) => part.text)).toEqual(["er", "ror"]);
    expect(parts.map((part) => part.text).join("")).toBe("error here");
  });
});

describe("a diff", () => {
  it("is read file by file with the numbers of its lines", () => {
    const files = parseDiff(
      "diff --git a/a.txt b/a.txt\nindex 1..2 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -3,2 +3,3 @@ fn\n same\n--- old\n+++ new\n+more\ndiff --git a/b.bin b/b.bin\nnew file mode 100644\nBinary files /dev/null and b/b.bin differ\ndiff --git a/c b/c\nnew file mode 100644\n--- /dev/null\n+++ b/c\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n",
    );
    expect(files.map((file) => [file.path, file.added, file.removed])).toEqual([
      ["a.txt", 2, 1],
      ["b.bin", 0, 0],
      ["c", 1, 0],
    ]);
    expect(files[0]?.lines.map((line) => [line.kind, line.before, line.after])).toEqual([
      ["hunk", null, null],
      ["context", 3, 3],
      ["removed", 4, null],
      ["added", null, 4],
      ["added", null, 5],
    ]);
    expect(files[1]?.lines.some((line) => line.text.startsWith("Binary files"))).toBe(true);
  });

  it("survives one that is cut short or none at all", () => {
    expect(parseDiff("")).toEqual([]);
    expect(parseDiff("no diff")).toEqual([]);
    expect(parseDiff("--- a/x\n+++ b/x\n@@ -1,5 +1,5 @@\n a\n-b")[0]?.removed).toBe(1);
  });
});
