import type { LogBatch, LogLine } from "../../host/contract";
import { plainText } from "./ansi";

// About the memory of one open job: 32 M characters are 32–64 MB, more than an hour of a chatty agent.
const MAX_CHARS = 32_000_000;
// A scroll bar finer than a pixel per line helps nobody, and web engines cap an element near 33 M pixels.
const MAX_LINES = 250_000;
// What is laid out for one line; whatever a program prints beyond that is no line that anybody reads.
const MAX_LINE = 16_384;
// Dropping in pieces keeps the cost of a full buffer away from every single batch.
const DROP_SHARE = 16;
// Past this many places nobody steps through them one by one.
const MAX_FOUND = 10_000;

/** How many cells of a fixed-width face a text takes; wide East Asian characters take two. */
export function cells(text: string): number {
  let wide = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    // A pair of surrogates counts two by its length already, and what it stands for is mostly wide.
    if (code < 0x1100) continue;
    if (code <= 0x115f || (code >= 0x2e80 && code <= 0xa4cf) || (code >= 0xac00 && code <= 0xd7a3)) wide++;
    else if (
      (code >= 0xf900 && code <= 0xfaff) ||
      (code >= 0xfe30 && code <= 0xfe6f) ||
      (code >= 0xff00 && code <= 0xff60)
    )
      wide++;
  }
  return text.length + wide;
}

/**
 * The lines of one log, in bounded memory: when it is full the oldest go, and `leftOut` counts them.
 *
 * Rows are what is drawn: a line is one row, or as many as it takes at `columns` cells when lines wrap.
 */
export class LogBuffer {
  leftOut = 0;
  found: number[] = [];

  #lines: LogLine[] = [];
  #chars = 0;
  /** Rows before and with line i, counted from the first line ever kept. */
  #ends: number[] = [];
  #base = 0;
  #columns: number | null = null;
  #query = "";
  #next = -1;

  constructor(
    readonly maxLines = MAX_LINES,
    readonly maxChars = MAX_CHARS,
  ) {}

  get length(): number {
    return this.#lines.length;
  }

  get rows(): number {
    return (this.#ends.at(-1) ?? this.#base) - this.#base;
  }

  get query(): string {
    return this.#query;
  }

  line(index: number): LogLine | undefined {
    return this.#lines[index];
  }

  /** Takes lines in order, passes over those it has, and tells how many rows went at the old end. */
  push(batch: LogBatch): number {
    this.leftOut += batch.gap ?? 0;
    for (const line of batch.lines) {
      if (line.seq <= this.#next) continue;
      this.#next = line.seq;
      const text = line.text.length > MAX_LINE ? `${line.text.slice(0, MAX_LINE)}…` : line.text;
      this.#lines.push(text === line.text ? line : { ...line, text });
      this.#chars += text.length;
      this.#ends.push((this.#ends.at(-1) ?? this.#base) + this.#rowsOf(text));
      this.#look(this.#lines.length - 1);
    }
    return this.#lines.length > this.maxLines || this.#chars > this.maxChars ? this.#drop() : 0;
  }

  /** Sets the width at which lines wrap, `null` for lines that don't, and tells whether that changed anything. */
  wrapAt(columns: number | null): boolean {
    if (columns === this.#columns) return false;
    this.#columns = columns;
    this.#base = 0;
    let end = 0;
    this.#ends = this.#lines.map((line) => {
      end += this.#rowsOf(line.text);
      return end;
    });
    return true;
  }

  /** Finds the line that holds the row. */
  lineAt(row: number): number {
    let low = 0;
    let high = this.#ends.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#ends[middle] ?? 0) - this.#base > row) high = middle;
      else low = middle + 1;
    }
    return Math.min(low, Math.max(0, this.#lines.length - 1));
  }

  /** The first row of the line. */
  rowOf(index: number): number {
    return index === 0 ? 0 : (this.#ends[index - 1] ?? this.#base) - this.#base;
  }

  /** Looks for a text, letter case aside; `found` then holds the lines, also of lines to come. */
  search(query: string): void {
    const wanted = query.toLowerCase();
    if (wanted === this.#query) return;
    this.#query = wanted;
    this.found = [];
    for (let i = 0; i < this.#lines.length; i++) this.#look(i);
  }

  get foundAll(): boolean {
    return this.found.length < MAX_FOUND;
  }

  text(): string {
    return this.#lines.map((line) => plainText(line.text)).join("\n");
  }

  #rowsOf(text: string): number {
    if (this.#columns === null) return 1;
    return Math.max(1, Math.ceil(cells(plainText(text)) / this.#columns));
  }

  #look(index: number): void {
    if (this.#query === "" || this.found.length >= MAX_FOUND) return;
    const line = this.#lines[index];
    if (line !== undefined && plainText(line.text).toLowerCase().includes(this.#query)) this.found.push(index);
  }

  #drop(): number {
    let count = Math.max(this.#lines.length - this.maxLines, 0) + Math.ceil(this.maxLines / DROP_SHARE);
    let chars = 0;
    for (let i = 0; i < this.#lines.length && (i < count || this.#chars - chars > this.maxChars); i++) {
      chars += this.#lines[i]?.text.length ?? 0;
      count = Math.max(count, i + 1);
    }
    count = Math.min(count, this.#lines.length);
    const base = this.#base;
    this.#base = this.#ends[count - 1] ?? this.#base;
    this.#lines.splice(0, count);
    this.#ends.splice(0, count);
    this.#chars -= chars;
    this.leftOut += count;
    this.found = this.found.filter((at) => at >= count).map((at) => at - count);
    return this.#base - base;
  }
}
