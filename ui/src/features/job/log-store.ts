import type { LogBatch } from "../../host/generated/contract";
import { plainText } from "./ansi";
import { cells } from "./cells";
import { CAN_PACK, Chunk, type Layout } from "./log-chunk";

// What one open log may take: two million lines of an agent pack into less than half of it.
const MAX_BYTES = 64_000_000;
// Beyond this the arrays beside the text alone would fill that room.
const MAX_LINES = 4_000_000;
// What is laid out for one line; whatever a program prints beyond that is no line that anybody reads.
const MAX_LINE = 16_384;
// Closed chunks whose text stays at hand, because people mostly look at the end: about 60,000 lines.
const PLAIN_CHUNKS = 16;
// Unpacked chunks that were read lately: more than two screens and a search can touch at once.
const READ_CHUNKS = 6;
// Past this many places nobody steps through them one by one.
const MAX_FOUND = 10_000;
// A search gives the page back this often, in milliseconds, so that a frame is never missed by much.
const SLICE_MS = 12;
const MAX_STREAMS = 255;

/** A line as it is shown; its text is `null` for the moment that it takes to unpack. */
export interface ShownLine {
  /** Counts from the first line that was ever kept. */
  number: number;
  at: number;
  stream: string;
  text: string | null;
}

const ESCAPE = String.fromCharCode(27);
const readable = (text: string) => (text.includes(ESCAPE) || text.includes("\r") ? plainText(text) : text);

/**
 * The lines of one log in bounded memory. Older ones are packed, and read again when somebody scrolls there or
 * searches; when even that is full the oldest go, and `leftOut` counts them.
 *
 * Rows are what is drawn: a line is one row, as many as it takes when lines wrap, or none when its stream is hidden.
 */
export class LogStore {
  leftOut = 0;
  /** Numbers of the lines that hold the searched text, in order. */
  found: number[] = [];
  /** The streams in the order in which they came up. */
  readonly streams: string[] = [];

  #chunks: Chunk[] = [new Chunk(0)];
  #layout: Layout = { columns: null, hidden: new Set() };
  #next = 0;
  #query = "";
  #looked = 0;
  #run = 0;
  #scanning = false;
  #packing = false;
  #canPack = CAN_PACK;
  readonly #read = new Map<Chunk, string[]>();
  readonly #reading = new Set<Chunk>();

  /** `onChange` hears of what became readable or was found in the meantime. */
  constructor(
    readonly onChange: () => void = () => {},
    readonly maxBytes = MAX_BYTES,
    readonly maxLines = MAX_LINES,
  ) {}

  get first(): number {
    return this.#chunks[0]?.first ?? 0;
  }

  get end(): number {
    return this.#chunks.at(-1)?.end ?? 0;
  }

  get length(): number {
    return this.end - this.first;
  }

  get rows(): number {
    return this.#chunks.reduce((sum, chunk) => sum + chunk.rows, 0);
  }

  get bytes(): number {
    return this.#chunks.reduce((sum, chunk) => sum + chunk.bytes, 0);
  }

  get foundAll(): boolean {
    return this.found.length < MAX_FOUND;
  }

  get searching(): boolean {
    return this.#scanning;
  }

  /** Takes lines in order, passes over those it has, and tells how many rows went at the old end. */
  push(batch: LogBatch): number {
    const missed = batch.firstSeq - this.#next;
    if (missed > 0) {
      this.leftOut += missed;
      this.#next = batch.firstSeq;
    }
    for (const line of batch.lines) {
      if (line.seq < this.#next) continue;
      this.#next = line.seq + 1;
      this.#add(line.text, line.stream ?? "agent", Date.parse(line.at));
    }
    this.#scan();
    return this.#drop();
  }

  /** Lays the lines out anew, and tells whether anything changed. */
  layOut(columns: number | null, hidden: readonly string[]): boolean {
    const ids = new Set(hidden.map((name) => this.streams.indexOf(name)));
    const before = this.#layout;
    const same = ids.size === before.hidden.size && [...ids].every((id) => before.hidden.has(id));
    if (columns === before.columns && same) return false;
    this.#layout = { columns, hidden: ids };
    for (const chunk of this.#chunks) chunk.layOut(this.#layout);
    if (!same) this.#searchAnew();
    return true;
  }

  /** Finds the line that holds the row. */
  lineAt(row: number): number {
    let left = row;
    for (const chunk of this.#chunks) {
      if (left >= chunk.rows) {
        left -= chunk.rows;
        continue;
      }
      for (let at = 0; at < chunk.count; at++) {
        left -= chunk.rowsOf(at, this.#layout);
        if (left < 0) return chunk.first + at;
      }
    }
    return Math.max(this.first, this.end - 1);
  }

  /** The first row of the line. */
  rowOf(number: number): number {
    let row = 0;
    for (const chunk of this.#chunks) {
      if (number >= chunk.end) {
        row += chunk.rows;
        continue;
      }
      for (let at = 0; at < number - chunk.first; at++) row += chunk.rowsOf(at, this.#layout);
      break;
    }
    return row;
  }

  /** The lines that have a row between two rows, the ends included; packed ones are unpacked in the meantime. */
  between(fromRow: number, toRow: number): { row: number; lines: ShownLine[] } {
    const from = this.lineAt(Math.max(0, fromRow));
    const row = this.rowOf(from);
    const lines: ShownLine[] = [];
    let next = row;
    for (let number = from; number < this.end && next <= toRow; number++) {
      const chunk = this.#chunkOf(number);
      if (chunk === undefined) break;
      const at = number - chunk.first;
      const rows = chunk.rowsOf(at, this.#layout);
      if (rows === 0) continue;
      next += rows;
      const text = this.#textsOf(chunk)?.[at] ?? null;
      lines.push({ number, at: chunk.ms(at), stream: this.streams[chunk.stream(at)] ?? "", text });
    }
    return { row, lines };
  }

  /** Looks for a text, letter case aside; `found` fills up, also by lines to come. */
  search(query: string): void {
    const wanted = query.toLowerCase();
    if (wanted === this.#query) return;
    this.#query = wanted;
    this.#searchAnew();
  }

  /** The lines that are shown, without their colours; a promise only where some have to be unpacked first. */
  text(): string | Promise<string> {
    const chunks = this.#chunks;
    if (chunks.every((chunk) => chunk.texts !== null)) {
      return chunks.flatMap((chunk) => this.#readable(chunk, chunk.texts ?? [])).join("\n");
    }
    return (async () => {
      const parts: string[] = [];
      for (const chunk of chunks) parts.push(this.#readable(chunk, await chunk.unpack()).join("\n"));
      return parts.filter((part) => part !== "").join("\n");
    })();
  }

  #readable(chunk: Chunk, texts: string[]): string[] {
    return texts.filter((_, at) => !this.#layout.hidden.has(chunk.stream(at))).map(readable);
  }

  #add(raw: string, stream: string, at: number): void {
    let chunk = this.#chunks.at(-1);
    if (chunk === undefined || chunk.full) {
      if (chunk !== undefined) chunk.sealed = true;
      chunk = new Chunk(chunk?.end ?? 0);
      this.#chunks.push(chunk);
      void this.#packOld();
    }
    const cut = raw.length > MAX_LINE ? `${raw.slice(0, MAX_LINE)}…` : raw;
    // A line end inside a line would make two lines of it when it is unpacked.
    const text = cut.includes("\n") ? cut.replaceAll("\n", " ") : cut;
    chunk.push(text, cells(readable(text)), this.#streamId(stream), Number.isNaN(at) ? 0 : at);
    chunk.rows += chunk.rowsOf(chunk.count - 1, this.#layout);
  }

  #streamId(name: string): number {
    const known = this.streams.indexOf(name);
    if (known !== -1) return known;
    if (this.streams.length === MAX_STREAMS) return MAX_STREAMS - 1;
    return this.streams.push(name) - 1;
  }

  #chunkOf(number: number): Chunk | undefined {
    // All chunks but the last have about the same size; the end is where most look.
    for (let at = this.#chunks.length - 1; at >= 0; at--) {
      const chunk = this.#chunks[at];
      if (chunk !== undefined && number >= chunk.first) return chunk;
    }
    return undefined;
  }

  #textsOf(chunk: Chunk): string[] | null {
    if (chunk.texts !== null) return chunk.texts;
    const read = this.#read.get(chunk);
    if (read !== undefined) {
      // The one read last goes last.
      this.#read.delete(chunk);
      this.#read.set(chunk, read);
      return read;
    }
    if (this.#reading.has(chunk)) return null;
    this.#reading.add(chunk);
    void chunk.unpack().then((texts) => {
      this.#reading.delete(chunk);
      this.#read.set(chunk, texts);
      for (const old of this.#read.keys()) {
        if (this.#read.size <= READ_CHUNKS) break;
        this.#read.delete(old);
      }
      this.onChange();
    });
    return null;
  }

  async #packOld(): Promise<void> {
    if (this.#packing || !this.#canPack) return;
    this.#packing = true;
    try {
      for (;;) {
        const old = this.#chunks.slice(0, -PLAIN_CHUNKS).find((chunk) => chunk.sealed && chunk.texts !== null);
        if (old === undefined) break;
        await old.pack();
      }
    } catch {
      // Bounded all the same, at the plain size.
      this.#canPack = false;
    }
    this.#packing = false;
  }

  #searchAnew(): void {
    this.#run++;
    this.found = [];
    this.#looked = this.first;
    this.#scanning = false;
    this.#scan();
  }

  #scan(): void {
    if (this.#scanning || this.#query === "" || !this.foundAll) return;
    this.#scanning = true;
    void this.#scanFrom(this.#run);
  }

  async #scanFrom(run: number): Promise<void> {
    let slice = performance.now();
    while (this.#looked < this.end && this.foundAll) {
      this.#looked = Math.max(this.#looked, this.first);
      const chunk = this.#chunkOf(this.#looked);
      if (chunk === undefined) break;
      let texts = chunk.texts ?? this.#read.get(chunk) ?? null;
      if (texts === null) {
        texts = await chunk.unpack();
        if (run !== this.#run) return;
      }
      this.#look(chunk, texts);
      if (performance.now() - slice < SLICE_MS) continue;
      this.onChange();
      await new Promise((resume) => setTimeout(resume));
      if (run !== this.#run) return;
      slice = performance.now();
    }
    this.#scanning = false;
    this.onChange();
  }

  #look(chunk: Chunk, texts: string[]): void {
    const { count } = chunk;
    for (let at = this.#looked - chunk.first; at < count && this.foundAll; at++) {
      if (this.#layout.hidden.has(chunk.stream(at))) continue;
      if (
        readable(texts[at] ?? "")
          .toLowerCase()
          .includes(this.#query)
      )
        this.found.push(chunk.first + at);
    }
    this.#looked = chunk.first + count;
  }

  #drop(): number {
    let rows = 0;
    while (this.#chunks.length > 1 && (this.length > this.maxLines || this.bytes > this.maxBytes)) {
      const gone = this.#chunks.shift();
      if (gone === undefined) break;
      rows += gone.rows;
      this.leftOut += gone.count;
      this.#read.delete(gone);
    }
    if (rows > 0) this.found = this.found.filter((number) => number >= this.first);
    return rows;
  }
}
