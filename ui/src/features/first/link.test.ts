import { describe, expect, it } from "vitest";
import { hubOf, readPasted } from "./link";

const kind = (text: string) => {
  const read = readPasted(text);
  return typeof read === "string" ? read : read.kind;
};

describe("readPasted", () => {
  it("tells a token, a link and an attach command apart", () => {
    expect(readPasted("  rnr_a-Z_9\n")).toEqual({ kind: "token", text: "rnr_a-Z_9" });
    expect(readPasted("everdict://pair?hub=https%3A%2F%2Fteam.example%2F&token=rnr_a&label=lab")).toMatchObject({
      kind: "link",
      hub: "https://team.example",
      label: "lab",
    });
    expect(readPasted('everdict runner --pair "rnr_a" --api-url "http://10.0.0.5:8787"')).toMatchObject({
      kind: "command",
      hub: "http://10.0.0.5:8787",
    });
  });

  it.each([
    ["", "empty"],
    ["x".repeat(5000), "huge"],
    [`everdict://pair?hub=https://t.example&token=rnr_a&label=${"x".repeat(200)}`, "huge"],
    ["javascript:alert(1)", "foreign"],
    ["https://team.example/pair?token=rnr_a", "foreign"],
    ["everdict://run?hub=https://t.example&token=rnr_a", "foreign"],
    ["rnr_a\u0000b", "control"],
    ["everdict://pair?hub=https://t.example&token=rnr_a&label=%00x", "control"],
    ["everdict://pair?hub=https://t.example&token=rnr_a&label=%E2%80%AEx", "control"],
    ["everdict://pair?hub=file:///etc/passwd&token=rnr_a", "hub"],
    ["everdict://pair?hub=https://user:pw@t.example&token=rnr_a", "hub"],
    ["everdict://pair?token=rnr_a", "hub"],
    ["everdict://pair?hub=https://t.example&token=ak_a", "token"],
    ["everdict://pair?hub=https://t.example", "token"],
    ["rnr_", "token"],
    ["rnr_a;rm -rf", "token"],
    ["hello", "unknown"],
  ])("refuses %j as %s", (text, reason) => {
    expect(kind(text)).toBe(reason);
  });
});

describe("hubOf", () => {
  it("takes web addresses only", () => {
    expect(hubOf(" https://team.example/ ")).toBe("https://team.example");
    expect(hubOf("http://10.0.0.5:8787/hub/")).toBe("http://10.0.0.5:8787/hub");
    for (const bad of ["", "team.example", "ftp://team.example", "javascript:1", "https://u@t.example", "https://"]) {
      expect(hubOf(bad), bad).toBeNull();
    }
  });
});
