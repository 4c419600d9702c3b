/** One fact of a result, by the name that the result gives it. */
export interface Fact {
  name: string;
  value: string;
}

export interface Evidence {
  /** Of the state after the run, without its long texts. */
  snapshot: Fact[];
  /** Where recordings, traces and pictures of it were kept, and who vouches for it. */
  refs: Fact[];
}

// Long texts have a place of their own: the diff under changes, a page's text in the raw result.
const MAX_TEXT = 300;
const REFS = [
  "provenance",
  "execution",
  "traceRef",
  "recordingRef",
  "evidence",
  "verifier",
  "sourceTraceId",
  "traceT0",
];

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function facts(prefix: string, value: unknown): Fact[] {
  if (value === null || value === undefined) return [];
  if (isRecord(value)) {
    return Object.entries(value).flatMap(([key, inner]) => facts(prefix === "" ? key : `${prefix}.${key}`, inner));
  }
  const text = Array.isArray(value)
    ? value.map((one) => (isRecord(one) ? JSON.stringify(one) : one)).join(", ")
    : value;
  const short = String(text);
  return short === "" || short.length > MAX_TEXT ? [] : [{ name: prefix, value: short }];
}

/** Picks what people look for out of a result; nothing of a text that is no whole result. */
export function evidenceOf(raw: string): Evidence {
  let result: unknown;
  try {
    result = JSON.parse(raw);
  } catch {
    return { snapshot: [], refs: [] };
  }
  if (!isRecord(result)) return { snapshot: [], refs: [] };
  const whole = result;
  return { snapshot: facts("", whole.snapshot), refs: REFS.flatMap((name) => facts(name, whole[name])) };
}
