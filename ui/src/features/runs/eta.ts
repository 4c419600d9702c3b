import type { BatchView } from "../../host/generated/contract";
import { secondsBetween } from "../../i18n/format";

/** Seconds until the rest is done, if it goes on as it went so far; nothing before the first case has ended. */
export function secondsLeft(batch: BatchView, now: number): number | null {
  const took = secondsBetween(batch.submittedAt, now);
  if (took === null || took <= 0 || batch.done === 0 || batch.done >= batch.total) return null;
  return Math.ceil((took / batch.done) * (batch.total - batch.done));
}
