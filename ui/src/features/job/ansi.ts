/** A stretch of a line in one style. Colours are numbers 0–15 of the terminal's named sixteen. */
export interface Span {
  text: string;
  fg: number | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

type Style = Omit<Span, "text">;

const ESCAPE = String.fromCharCode(27);
const BELL = String.fromCharCode(7);
// CSI with its parameters and final letter, OSC up to its end, or any other two-character escape.
const SEQUENCE = new RegExp(
  `${ESCAPE}(?:\\[([0-9;:?]*)([@-~])|\\][^${BELL}${ESCAPE}]*(?:${BELL}|${ESCAPE}\\\\)?|[@-_a-z])`,
  "g",
);
// What would move the cursor or ring the bell; a tab stays.
const CONTROL = new RegExp(
  `[${String.fromCharCode(0)}-${String.fromCharCode(8)}${String.fromCharCode(11)}-${String.fromCharCode(31)}${String.fromCharCode(127)}]`,
  "g",
);

const PLAIN: Style = { fg: null, bold: false, dim: false, italic: false, underline: false };

/** A progress bar rewrites its line; what it wrote last is what a terminal shows. */
function lastRewrite(line: string): string {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  return text.slice(text.lastIndexOf("\r") + 1);
}

/** Leaves only what a reader sees of a line. */
export function plainText(line: string): string {
  return lastRewrite(line).replace(SEQUENCE, "").replace(CONTROL, "");
}

/** Picks the nearest of the sixteen for a colour given by its parts (0–255). */
function nearest(red: number, green: number, blue: number): number {
  const high = Math.max(red, green, blue);
  if (high < 48) return 0;
  const half = high / 2;
  const bits = (red > half ? 1 : 0) | (green > half ? 2 : 0) | (blue > half ? 4 : 0);
  return bits + (high > 191 ? 8 : 0);
}

function fromPalette(index: number): number {
  if (index < 16) return index;
  if (index >= 232) return index < 244 ? 8 : 7;
  const cube = index - 16;
  const level = (value: number) => (value === 0 ? 0 : 55 + value * 40);
  return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

function applied(style: Style, parameters: string): Style {
  const codes = parameters === "" ? [0] : parameters.split(/[;:]/).map(Number);
  let next = { ...style };
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i] ?? 0;
    if (code === 0) next = { ...PLAIN };
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 22) next = { ...next, bold: false, dim: false };
    else if (code === 23) next.italic = false;
    else if (code === 24) next.underline = false;
    else if (code >= 30 && code <= 37) next.fg = code - 30;
    else if (code === 39) next.fg = null;
    else if (code >= 90 && code <= 97) next.fg = code - 82;
    else if (code === 38 || code === 48) {
      // A background is left out: no pair of colours could then be promised to be readable.
      const fg =
        codes[i + 1] === 5
          ? fromPalette(codes[i + 2] ?? 0)
          : nearest(codes[i + 2] ?? 0, codes[i + 3] ?? 0, codes[i + 4] ?? 0);
      i += codes[i + 1] === 5 ? 2 : 4;
      if (code === 38) next.fg = fg;
    }
  }
  return next;
}

/** Cuts a line into stretches of one style; text is never taken for markup. */
export function spans(line: string): Span[] {
  const text = lastRewrite(line);
  if (!text.includes(ESCAPE)) return [{ ...PLAIN, text: text.replace(CONTROL, "") }];
  const out: Span[] = [];
  let style = PLAIN;
  let from = 0;
  const push = (to: number) => {
    const part = text.slice(from, to).replace(CONTROL, "");
    if (part !== "") out.push({ ...style, text: part });
  };
  for (const match of text.matchAll(SEQUENCE)) {
    push(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m") style = applied(style, match[1] ?? "");
  }
  push(text.length);
  return out;
}

/** Marks the places of `query` (lower case) within the spans, by cutting them once more. */
export function marked(parts: Span[], query: string): (Span & { found: boolean })[] {
  if (query === "") return parts.map((part) => ({ ...part, found: false }));
  const whole = parts
    .map((part) => part.text)
    .join("")
    .toLowerCase();
  const cuts: [number, number][] = [];
  for (let at = whole.indexOf(query); at !== -1; at = whole.indexOf(query, at + query.length))
    cuts.push([at, at + query.length]);
  const out: (Span & { found: boolean })[] = [];
  let offset = 0;
  for (const part of parts) {
    let at = 0;
    for (const [from, to] of cuts) {
      const a = Math.max(from - offset, at);
      const b = Math.min(to - offset, part.text.length);
      if (b <= a) continue;
      if (a > at) out.push({ ...part, text: part.text.slice(at, a), found: false });
      out.push({ ...part, text: part.text.slice(a, b), found: true });
      at = b;
    }
    if (at < part.text.length) out.push({ ...part, text: part.text.slice(at), found: false });
    offset += part.text.length;
  }
  return out;
}
