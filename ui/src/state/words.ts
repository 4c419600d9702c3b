import { hostOf } from "../features/first/link";
import type { AppSnapshot, RunnerView } from "../host/generated/contract";
import type { Translate } from "../i18n";
import type { Format } from "../i18n/format";

function pausedWord(until: string | null, t: Translate, f: Format): string {
  return until === null || until === "resume" ? t("state.paused") : t("state.pausedUntil", { time: f.clock(until) });
}

/** The word for the whole machine. */
export function stateWord(snapshot: AppSnapshot, t: Translate, f: Format): string {
  if (snapshot.state === "running") return t("state.running", { count: snapshot.active.length });
  if (snapshot.state === "paused") {
    // A pause by the person is named before one by the hub: it is the one that they can end.
    return snapshot.pausedUntil === null && snapshot.hubPause !== null
      ? t("state.pausedByHub", { reason: snapshot.hubPause })
      : pausedWord(snapshot.pausedUntil, t, f);
  }
  if (snapshot.state === "waiting" && snapshot.waiting !== null) {
    return t("state.waitingFor", { reason: t(`waiting.${snapshot.waiting.reason}`) });
  }
  if (snapshot.state === "attention") return attentionWord(snapshot.cause, t);
  return t(`state.${snapshot.state}`);
}

/** The causes that have words of their own in place of "needs you". */
function attentionWord(cause: string | null, t: Translate): string {
  if (cause === "revoked" || cause === "removed") return t(`state.${cause}`);
  return t(cause === "already_running" ? "state.alreadyRunning" : "state.attention");
}

/** The word for one runner; a hub that can't be reached is named. */
export function runnerWord(runner: RunnerView, pausedUntil: string | null, t: Translate, f: Format): string {
  if (runner.state === "running") return t("state.running", { count: runner.active });
  if (runner.state === "paused") return pausedWord(pausedUntil, t, f);
  if (runner.state === "attention") return attentionWord(runner.cause, t);
  if (runner.state === "offline") return t("state.offlineHub", { hub: hostOf(runner.hub) });
  return t(`state.${runner.state}`);
}
