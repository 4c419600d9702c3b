import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const css = readFileSync(join(import.meta.dirname, "tokens.css"), "utf8");

function theme(from: string): Record<string, string> {
  const start = css.indexOf(from);
  if (start === -1) throw new Error(`BUG: no ${from}`);
  const body = css.slice(start, css.indexOf("}", start));
  return Object.fromEntries([...body.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, value]) => [name, value]));
}

const themes = {
  light: theme(':root,\n:root[data-theme="light"] {'),
  dark: theme(':root[data-theme="dark"] {\n  --surface'),
};

/** The relative luminance of WCAG 2. */
function luminance(colour: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one: string, other: string): number {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

const SURFACES = ["surface", "surface-side", "surface-card", "surface-code", "surface-hover"];
const TEXT = 4.5;
const CONTROL = 3;
const tones = ["green", "blue", "amber", "red", "violet", "grey"];
const pairs: [string, string, number][] = [
  ...SURFACES.flatMap((surface): [string, string, number][] => [
    ["text", surface, TEXT],
    ["text-muted", surface, TEXT],
    ["accent-text", surface, TEXT],
    ["red-text", surface, TEXT],
    ["control-line", surface, CONTROL],
    ["accent", surface, CONTROL],
    ["grey-mark", surface, CONTROL],
  ]),
  ...tones.map((tone): [string, string, number] => [`${tone}-text`, `${tone}-soft`, TEXT]),
  ...tones.map((tone): [string, string, number] => ["text", `${tone}-soft`, TEXT]),
  ...Array.from({ length: 16 }, (_, n): [string, string, number] => [`ansi-${n}`, "surface-code", TEXT]),
  ...Array.from({ length: 16 }, (_, n): [string, string, number] => [`ansi-${n}`, "surface-hover", TEXT]),
  ["accent-text", "accent-soft", TEXT],
  ["on-accent", "accent", TEXT],
  ["on-accent", "accent-strong", TEXT],
  ["text", "found", TEXT],
  ["text", "found-now", TEXT],
];

describe.each(Object.entries(themes))("the %s colours", (_, colours) => {
  it.each(pairs)("keep %s readable on %s", (front, back, least) => {
    expect(contrast(colours[front] ?? "", colours[back] ?? "")).toBeGreaterThanOrEqual(least);
  });
});

it("a chosen dark theme and the system's are the same", () => {
  expect(theme(":root:not([data-theme]) {")).toEqual(themes.dark);
  expect(Object.keys(themes.dark).sort()).toEqual(Object.keys(themes.light).sort());
});
