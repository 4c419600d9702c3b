/** What a pasted text asks for, before anything is done with it. */
export type Pasted =
  | { kind: "token"; text: string }
  | { kind: "link"; text: string; hub: string; label: string | null }
  | { kind: "command"; text: string; hub: string };

export type Refusal = "empty" | "huge" | "foreign" | "control" | "hub" | "token" | "unknown";

// A token, an address and a label, with much room; anything longer was not made by a hub.
const MAX_TEXT = 4096;
// The longest label that a person still reads as one.
const MAX_LABEL = 100;
const TOKEN = /^rnr_[A-Za-z0-9_-]{1,256}$/;
const SCHEME = /^[a-z][a-z0-9+.-]*:/i;

function hasControl(text: string): boolean {
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    // Direction marks can make an address read as another one.
    if (code < 32 || code === 127 || (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069))
      return true;
  }
  return false;
}

/** Reads the address of a hub: http or https, no user and no fragment. */
export function hubOf(text: string): string | null {
  try {
    const url = new URL(text.trim());
    if (url.protocol !== "http:" && url.protocol !== "https:") return null;
    if (url.username !== "" || url.password !== "" || url.hash !== "" || url.hostname === "") return null;
    return url.href.replace(/\/+$/, "");
  } catch {
    return null;
  }
}

export function hostOf(hub: string): string {
  try {
    return new URL(hub).host || hub;
  } catch {
    return hub;
  }
}

function fromLink(text: string): Pasted | Refusal {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return "unknown";
  }
  if (url.protocol !== "everdict:" || (url.host || url.pathname.replace(/^\/+/, "")) !== "pair") return "foreign";
  const first = (...names: string[]) => names.map((name) => url.searchParams.get(name)).find((value) => value !== null);
  const token = first("token");
  if (token === undefined || token === null || !TOKEN.test(token)) return "token";
  const hub = hubOf(first("hub", "apiUrl", "api-url") ?? "");
  if (hub === null) return "hub";
  const label = first("label") ?? null;
  if (label !== null && hasControl(label)) return "control";
  if (label !== null && label.length > MAX_LABEL) return "huge";
  return { kind: "link", text, hub, label };
}

/** Tells what a pasted text is, or why it can't be used. Nothing in it is ever run or shown as markup. */
export function readPasted(raw: string): Pasted | Refusal {
  const text = raw.trim();
  if (text === "") return "empty";
  if (text.length > MAX_TEXT) return "huge";
  if (hasControl(text)) return "control";
  if (TOKEN.test(text)) return { kind: "token", text };
  if (/^rnr_/i.test(text)) return "token";
  const command = /^everdict(?:-runner)?\s.*--pair[\s=]+["']?([^\s"']+)["']?/.exec(text);
  if (command !== null) {
    if (!TOKEN.test(command[1] ?? "")) return "token";
    const hub = hubOf(/--api-url[\s=]+["']?([^\s"']+)["']?/.exec(text)?.[1] ?? "");
    return hub === null ? "hub" : { kind: "command", text, hub };
  }
  return SCHEME.test(text) ? fromLink(text) : "unknown";
}
