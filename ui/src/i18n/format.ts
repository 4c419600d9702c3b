import type { Locale, MessageKey, Translate } from ".";

/** Numbers, durations and ages in one form everywhere. */
export interface Format {
  number(value: number): string;
  money(usd: number): string;
  /** `9 s`, `2 m 10 s`, `1 h 04 m`. */
  duration(seconds: number): string;
  /** How long ago, in the largest whole unit. */
  age(seconds: number): string;
  /** Bytes in the unit that leaves one to three digits before the point. */
  bytes(value: number): string;
  clock(at: string): string;
  /** The time of day to the second. */
  second(at: string): string;
  moment(at: string): string;
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const SIZES: [number, MessageKey][] = [
  [1e9, "size.gb"],
  [1e6, "size.mb"],
  [1e3, "size.kb"],
  [1, "size.b"],
];

export function formatter(locale: Locale, t: Translate): Format {
  const plain = new Intl.NumberFormat(locale, { maximumFractionDigits: 3 });
  const short = new Intl.NumberFormat(locale, { maximumSignificantDigits: 3 });
  const clock = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const second = new Intl.DateTimeFormat(locale, { timeStyle: "medium", hourCycle: "h23" });
  const moment = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
  const two = (value: number) => String(value).padStart(2, "0");
  const date = (at: string, form: Intl.DateTimeFormat) => {
    const time = Date.parse(at);
    return Number.isNaN(time) ? at : form.format(time);
  };
  return {
    number: (value) => plain.format(value),
    // Agents cost cents; two digits would round most runs to nothing.
    money: (usd) => `$${usd.toFixed(usd !== 0 && Math.abs(usd) < 1 ? 4 : 2)}`,
    duration(seconds) {
      const whole = Math.max(0, Math.floor(seconds));
      if (whole < MINUTE) return t("time.seconds", { s: whole });
      if (whole < HOUR) return t("time.minutes", { m: Math.floor(whole / MINUTE), s: two(whole % MINUTE) });
      return t("time.hours", { h: Math.floor(whole / HOUR), m: two(Math.floor((whole % HOUR) / MINUTE)) });
    },
    age(seconds) {
      const whole = Math.max(0, Math.floor(seconds));
      const [key, count]: [MessageKey, number] =
        whole < MINUTE
          ? ["age.seconds", whole]
          : whole < HOUR
            ? ["age.minutes", Math.floor(whole / MINUTE)]
            : whole < DAY
              ? ["age.hours", Math.floor(whole / HOUR)]
              : ["age.days", Math.floor(whole / DAY)];
      return t(key, { count });
    },
    bytes(value) {
      const [unit, key] = SIZES.find(([least]) => value >= least) ?? [1, "size.b"];
      return t(key, { n: short.format(value / unit) });
    },
    clock: (at) => date(at, clock),
    second: (at) => date(at, second),
    moment: (at) => date(at, moment),
  };
}

/** Seconds from `from` to `to`, both milliseconds or RFC 3339; nothing when either is no time. */
export function secondsBetween(from: string | number, to: string | number): number | null {
  const a = typeof from === "number" ? from : Date.parse(from);
  const b = typeof to === "number" ? to : Date.parse(to);
  return Number.isNaN(a) || Number.isNaN(b) ? null : (b - a) / 1000;
}

/** Makes a sentence of an engine's text: it comes lower case and without a full stop. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  if (trimmed === "") return "";
  const end = /[.!?…。]$/.test(trimmed) ? "" : ".";
  return trimmed.charAt(0).toUpperCase() + trimmed.slice(1) + end;
}
