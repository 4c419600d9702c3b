import { describe, expect, it } from "vitest";
import { marked, plainText, spans } from "./ansi";
import { parseDiff } from "./diff";
import { cells, LogBuffer } from "./log-buffer";

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

describe("a log buffer", () => {
  it("keeps two million lines' newest in bounded memory and counts the rest", () => {
    const buffer = new LogBuffer(1000);
    for (let from = 0; from < 2_000_000; from += 10_000) buffer.push(many(from, 10_000));
    expect(buffer.length).toBeLessThanOrEqual(1000);
    expect(buffer.length + buffer.leftOut).toBe(2_000_000);
    expect(buffer.line(buffer.length - 1)?.text).toBe("line 1999999");
    expect(buffer.rows).toBe(buffer.length);
    expect(buffer.lineAt(0)).toBe(0);
  });

  it("is bounded by characters as well", () => {
    const buffer = new LogBuffer(1000, 5000);
    for (let i = 0; i < 50; i++) buffer.push(batch(i, ["x".repeat(1000)]));
    expect(buffer.length).toBeLessThanOrEqual(5);
    expect(buffer.line(buffer.length - 1)?.seq).toBe(49);
  });

  it("cuts a line that is longer than anybody reads", () => {
    const buffer = new LogBuffer();
    buffer.push(batch(0, ["x".repeat(1_000_000)]));
    expect(buffer.line(0)?.text.length).toBeLessThan(20_000);
  });

  it("passes over lines that it has and counts the ones that are gone", () => {
    const buffer = new LogBuffer();
    buffer.push(batch(0, ["a", "b"]));
    buffer.push(batch(1, ["b", "c"]));
    buffer.push(batch(13, ["d"], 10));
    expect(buffer.text()).toBe("a\nb\nc\nd");
    expect(buffer.leftOut).toBe(10);
  });

  it("finds the line of each row when lines wrap, also after the oldest went", () => {
    const buffer = new LogBuffer(4);
    buffer.wrapAt(10);
    buffer.push(batch(0, ["", "x".repeat(25), "y".repeat(10), `${E}[31m${"z".repeat(11)}${E}[0m`]));
    expect(buffer.rows).toBe(1 + 3 + 1 + 2);
    expect([0, 1, 3, 4, 5, 6, 99].map((row) => buffer.lineAt(row))).toEqual([0, 1, 1, 2, 3, 3, 3]);
    expect([0, 1, 2, 3].map((index) => buffer.rowOf(index))).toEqual([0, 1, 4, 5]);
    const dropped = buffer.push(batch(4, ["end"]));
    expect(dropped).toBe(1 + 3);
    expect(buffer.rowOf(1)).toBe(1);
    buffer.wrapAt(null);
    expect(buffer.rows).toBe(buffer.length);
  });

  it("goes on finding in lines that come, and forgets places that go", () => {
    const buffer = new LogBuffer(4);
    buffer.push(batch(0, ["ERROR one", "two", `${E}[31merr${E}[0mor three`]));
    buffer.search("error");
    expect(buffer.found).toEqual([0, 2]);
    buffer.push(batch(3, ["four", "an error"]));
    expect(buffer.found.map((index) => buffer.line(index)?.text)).toContain("an error");
    for (const index of buffer.found)
      expect(plainText(buffer.line(index)?.text ?? "").toLowerCase()).toContain("error");
  });

  it("counts wide characters as two cells", () => {
    expect(cells("abc")).toBe(3);
    expect(cells("한글")).toBe(4);
    expect(cells("é")).toBe(1);
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
