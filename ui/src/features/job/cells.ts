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
