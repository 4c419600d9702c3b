import type { AppEvent, AppSnapshot, Failure, JobDetail, JobView, LogBatch } from "./generated/contract";

export type Stop = () => void;

/**
 * The engine behind the page.
 *
 * Every call rejects with a `Failure`; callers turn other things into one with `asFailure`.
 */
export interface Host {
  snapshot(): Promise<AppSnapshot>;
  /** Reports every change until the returned function is called. */
  watch(onEvent: (event: AppEvent) => void): Promise<Stop>;

  /**
   * Starts the hub inside this app, pairs with it and takes jobs.
   *
   * Rejects with a code that begins with `keyring_` where the keyring can't take the token; `allowFile` then
   * lets a file of the person's take it.
   */
  pairThisComputer(label: string, allowFile: boolean): Promise<void>;
  /** Pairs by a runner token, an attach command or a pairing link; `allowFile` as above. */
  pairWithToken(hubUrl: string, text: string, label: string, allowFile: boolean): Promise<void>;
  pairWithApiKey(hubUrl: string, apiKey: string, label: string, allowFile: boolean): Promise<void>;
  unpair(runnerId: string): Promise<void>;

  /** Takes no new jobs for a time; `null` means until `resume`. */
  pause(forSeconds: number | null): Promise<void>;
  resume(): Promise<void>;
  setCapability(name: string, on: boolean): Promise<void>;

  /** Runs the sample case on the hub inside this app; answers with the run's id. */
  submitSample(): Promise<string>;
  /** Live jobs first, then ended ones, newest first. */
  jobs(limit: number): Promise<JobView[]>;
  /** Sends the lines so far, then new ones as they come, until the returned function is called. */
  watchLog(jobId: string, onLines: (batch: LogBatch) => void): Promise<Stop>;
  jobResult(jobId: string): Promise<JobDetail>;
  stopJob(jobId: string): Promise<void>;

  /** Keeps a text as a file of the person's choice; absent where the host can't. */
  saveText?: (name: string, text: string) => void;
}

function isFailure(value: unknown): value is Failure {
  return typeof value === "object" && value !== null && "code" in value && "message" in value;
}

/** Makes a failure of whatever was thrown; one without a code of its own is `UNKNOWN`. */
export function asFailure(thrown: unknown): Failure {
  if (isFailure(thrown)) return { code: String(thrown.code), message: String(thrown.message), fix: thrown.fix ?? null };
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return { code: "UNKNOWN", message, fix: null };
}

/** Holds a subscription that is still being opened; the returned function ends it, also before it is open. */
export function hold(opening: Promise<Stop>, onFailure: (failure: Failure) => void): Stop {
  let ended = false;
  let stop: Stop | null = null;
  opening.then(
    (opened) => {
      if (ended) opened();
      else stop = opened;
    },
    (thrown) => {
      if (!ended) onFailure(asFailure(thrown));
    },
  );
  return () => {
    ended = true;
    stop?.();
    stop = null;
  };
}
