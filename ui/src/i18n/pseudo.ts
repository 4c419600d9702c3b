import { catalogues, type MessageKey, type Translate, translator } from ".";

// How much longer a text gets in languages that need more letters than English.
const LONGER = 0.4;
const MARKS: Record<string, string> = { a: "å", e: "é", i: "î", o: "ö", u: "ü", n: "ñ", s: "š", c: "ç" };

/** Longer words with marks, in brackets: what has no bracket came from no catalogue. */
export function pseudo(text: string): string {
  const marked = text
    .split(/(\{\w+\})/)
    .map((part) => (part.startsWith("{") ? part : part.replace(/[aeiounsc]/g, (letter) => MARKS[letter] ?? letter)))
    .join("");
  // As words and not as one block, because a language breaks its longer sentences into lines as well.
  const more = " öñé".repeat(Math.ceil((text.length * LONGER) / 4)).slice(0, Math.ceil(text.length * LONGER));
  return `[${marked}${more}]`;
}

/** The English catalogue as a language with longer words would be. */
export function pseudoTranslator(): Translate {
  const longer = Object.fromEntries(Object.entries(catalogues.en).map(([key, text]) => [key, pseudo(text)]));
  return translator("en", longer as Record<MessageKey, string>);
}
