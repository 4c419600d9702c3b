import type {
  AppEvent,
  AppSnapshot,
  BatchDetail,
  BatchView,
  CheckView,
  CleanView,
  CompareView,
  ConsentAnswer,
  ConsentView,
  DiskView,
  Failure,
  FrameView,
  JobDetail,
  JobView,
  LogBatch,
  PreviewView,
  RunsView,
  SettingValue,
  SettingView,
  SubmittedView,
} from "./generated/contract";

export type Stop = () => void;

/**
 * What the engine does when asked.
 *
 * Every call rejects with a `Failure`; callers turn other things into one with `asFailure`.
 */
export interface Calls {
  snapshot(): Promise<AppSnapshot>;

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
  /** How people get into a hub: by an API key (`key`), by a sign-in in the browser (`oidc`). */
  signInMethods(hubUrl: string): Promise<string[]>;
  /** Opens the system's browser, waits until the person has signed in there, and pairs; `allowFile` as above. */
  signIn(hubUrl: string, label: string, allowFile: boolean): Promise<void>;
  /** Ends the sign-in that waits, if one does; it rejects with `sign_in_cancelled`. */
  cancelSignIn(): Promise<void>;
  /** Pairs by the link that was opened outside and waits in the snapshot; `allowFile` as above. */
  acceptLink(label: string, allowFile: boolean): Promise<void>;
  dismissLink(): Promise<void>;
  unpair(runnerId: string): Promise<void>;
  /** Forgets a runner of the hub inside this app, which refuses it, and pairs anew. */
  pairAgain(runnerId: string): Promise<void>;
  /** Drops a runner's connection and makes a new one at once. */
  reconnect(runnerId: string): Promise<void>;

  /** Takes no new jobs for a time; `null` means until `resume`. */
  pause(forSeconds: number | null): Promise<void>;
  resume(): Promise<void>;
  /** Pauses once the jobs that run now have ended. */
  finishThenPause(): Promise<void>;
  setCapability(name: string, on: boolean): Promise<void>;

  settings(): Promise<SettingView[]>;
  /** Keeps a value, `null` for the default; rejects with the reason where it makes no sense. */
  saveSetting(key: string, value: SettingValue | null): Promise<SettingView[]>;
  setAutostart(on: boolean): Promise<void>;
  consents(): Promise<ConsentView[]>;
  answerAsk(id: string, answer: ConsentAnswer): Promise<void>;
  revokeConsent(id: string): Promise<void>;

  doctor(): Promise<CheckView[]>;
  disk(): Promise<DiskView>;
  clean(category: string): Promise<CleanView>;
  /** The last lines of the app's own log. */
  ownLog(lines: number): Promise<string[]>;
  /** What to send along with a question; tokens and names are masked. */
  report(): Promise<string>;

  /** Runs the sample case on the hub inside this app; answers with the run's id. */
  submitSample(): Promise<string>;
  /** Live jobs first, then ended ones, newest first. */
  jobs(limit: number): Promise<JobView[]>;
  jobResult(jobId: string): Promise<JobDetail>;
  stopJob(jobId: string): Promise<void>;

  /** The runs on the hub inside this app, newest first. */
  runs(limit: number, cursor: string | null): Promise<RunsView>;
  /** Says what a file would run, and what is wrong with it, by place. */
  previewFile(name: string, text: string): Promise<PreviewView>;
  submitFile(
    name: string,
    text: string,
    harness: string | null,
    runtime: string | null,
    label: string | null,
  ): Promise<SubmittedView>;
  batches(): Promise<BatchView[]>;
  batch(id: string): Promise<BatchDetail>;
  compare(base: string, candidate: string): Promise<CompareView>;
  cancelBatch(id: string): Promise<void>;

  /** Keeps a text as a new file; answers with where, or `null` where the browser asks the person itself. */
  saveText(name: string, text: string): Promise<string | null>;
}

/** What the engine tells by itself, each until the function that it answers with is called. */
export interface Streams {
  /**
   * Reports every change.
   *
   * `onLine` hears that the connection broke, and `null` when it is back: then everything is to be asked anew.
   */
  watch(onEvent: (event: AppEvent) => void, onLine?: (failure: Failure | null) => void): Promise<Stop>;
  /** Sends the lines so far, then new ones as they come. */
  watchLog(onLines: (batch: LogBatch) => void, jobId: string): Promise<Stop>;
  /** Sends the latest picture of the job's browser, then each new one. */
  watchFrames(onFrame: (frame: FrameView) => void, jobId: string): Promise<Stop>;
}

/** The engine behind the page. */
export interface Host extends Calls, Streams {}

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

/** Holds a subscription while the page is seen: a hidden one hears nothing, and asks anew when it is shown. */
export function holdWhileSeen(open: () => Promise<Stop>, onFailure: (failure: Failure) => void): Stop {
  let stop: Stop | null = null;
  const follow = () => {
    if (document.hidden) {
      stop?.();
      stop = null;
    } else stop ??= hold(open(), onFailure);
  };
  follow();
  document.addEventListener("visibilitychange", follow);
  return () => {
    document.removeEventListener("visibilitychange", follow);
    stop?.();
    stop = null;
  };
}
