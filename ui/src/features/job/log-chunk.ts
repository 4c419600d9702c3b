// Lines that are kept, packed and read together: a page of scrolling touches one or two chunks, and a chunk of this
// size packs well and unpacks in a few milliseconds.
export const CHUNK_LINES = 4096;
// A chunk of long lines is closed earlier.
const CHUNK_CHARS = 1 << 19;
// Number, kind and time of a line beside its text, in the arrays below.
const LINE_BYTES = 2 + 1 + 4;
const MAX_CELLS = 0xffff;

/** How lines are laid out: at a width when they wrap, without those of the hidden streams. */
export interface Layout {
  columns: number | null;
  hidden: ReadonlySet<number>;
}

/** Whether this web engine can pack text; without it a log is bounded at its plain size. */
export const CAN_PACK = typeof CompressionStream === "function";

async function through(bytes: Blob, change: ReadableWritablePair<Uint8Array, BufferSource>): Promise<Response> {
  return new Response(bytes.stream().pipeThrough(change));
}

/** A run of lines: their text in full or packed, and what is needed to lay them out without it. */
export class Chunk {
  count = 0;
  /** Rows of the lines, as laid out last. */
  rows = 0;
  sealed = false;

  #texts: string[] | null = [];
  #packed: Uint8Array | null = null;
  #chars = 0;
  #startMs = 0;
  readonly #cells = new Uint16Array(CHUNK_LINES);
  readonly #streams = new Uint8Array(CHUNK_LINES);
  readonly #ms = new Uint32Array(CHUNK_LINES);

  /** `first` is the number of its first line, counted from the first one ever kept. */
  constructor(readonly first: number) {}

  get end(): number {
    return this.first + this.count;
  }

  get full(): boolean {
    return this.count === CHUNK_LINES || this.#chars >= CHUNK_CHARS;
  }

  /** About what it takes in memory; a character of most logs takes one byte. */
  get bytes(): number {
    return CHUNK_LINES * LINE_BYTES + (this.#packed?.byteLength ?? this.#chars);
  }

  /** The lines' texts, nothing while they are packed. */
  get texts(): string[] | null {
    return this.#texts;
  }

  push(text: string, cells: number, stream: number, ms: number): void {
    if (this.count === 0) this.#startMs = ms;
    this.#texts?.push(text);
    this.#chars += text.length;
    this.#cells[this.count] = Math.min(cells, MAX_CELLS);
    this.#streams[this.count] = stream;
    this.#ms[this.count] = Math.max(0, ms - this.#startMs);
    this.count++;
  }

  ms(at: number): number {
    return this.#startMs + (this.#ms[at] ?? 0);
  }

  stream(at: number): number {
    return this.#streams[at] ?? 0;
  }

  /** Rows of one line: none when its stream is hidden. */
  rowsOf(at: number, layout: Layout): number {
    if (layout.hidden.has(this.#streams[at] ?? 0)) return 0;
    return layout.columns === null ? 1 : Math.max(1, Math.ceil((this.#cells[at] ?? 0) / layout.columns));
  }

  layOut(layout: Layout): void {
    this.rows = 0;
    for (let at = 0; at < this.count; at++) this.rows += this.rowsOf(at, layout);
  }

  async pack(): Promise<void> {
    if (this.#texts === null) return;
    const plain = new Blob([this.#texts.join("\n")]);
    const packed = await through(plain, new CompressionStream("deflate-raw"));
    this.#packed = new Uint8Array(await packed.arrayBuffer());
    this.#texts = null;
  }

  async unpack(): Promise<string[]> {
    if (this.#texts !== null) return this.#texts;
    const plain = await through(
      new Blob([this.#packed as Uint8Array<ArrayBuffer>]),
      new DecompressionStream("deflate-raw"),
    );
    return (await plain.text()).split("\n");
  }
}
