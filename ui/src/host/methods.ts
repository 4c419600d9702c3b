import type { Failure } from "./generated/contract";
import type { Calls, Host, Stop, Streams } from "./host";

type Names<T extends unknown[]> = { [At in keyof T]-?: string };
type CallTable = { [Name in keyof Calls]: { command: string; args: Names<Parameters<Calls[Name]>> } };

/** Each call's name with the engine and those of its arguments, in order; every host is made from this table. */
export const CALLS: CallTable = {
  snapshot: { command: "snapshot", args: [] },
  pairThisComputer: { command: "pair_this_computer", args: ["label", "allowFileStore"] },
  pairWithToken: { command: "pair_with_token", args: ["hubUrl", "text", "label", "allowFileStore"] },
  pairWithApiKey: { command: "pair_with_api_key", args: ["hubUrl", "apiKey", "label", "allowFileStore"] },
  signInMethods: { command: "sign_in_methods", args: ["hubUrl"] },
  signIn: { command: "sign_in", args: ["hubUrl", "label", "allowFile"] },
  cancelSignIn: { command: "cancel_sign_in", args: [] },
  acceptLink: { command: "accept_link", args: ["label", "allowFile"] },
  dismissLink: { command: "dismiss_link", args: [] },
  unpair: { command: "unpair", args: ["runnerId"] },
  pairAgain: { command: "pair_again", args: ["runnerId"] },
  reconnect: { command: "reconnect", args: ["runnerId"] },
  pause: { command: "pause", args: ["forSeconds"] },
  resume: { command: "resume", args: [] },
  finishThenPause: { command: "finish_then_pause", args: [] },
  setCapability: { command: "set_capability", args: ["name", "on"] },
  settings: { command: "settings", args: [] },
  saveSetting: { command: "save_setting", args: ["key", "value"] },
  setAutostart: { command: "set_autostart", args: ["on"] },
  consents: { command: "consents", args: [] },
  answerAsk: { command: "answer_ask", args: ["id", "answer"] },
  revokeConsent: { command: "revoke_consent", args: ["id"] },
  doctor: { command: "doctor", args: [] },
  disk: { command: "disk", args: [] },
  clean: { command: "clean", args: ["category"] },
  ownLog: { command: "own_log", args: ["lines"] },
  report: { command: "report", args: [] },
  submitSample: { command: "submit_sample", args: [] },
  jobs: { command: "jobs", args: ["limit"] },
  jobResult: { command: "job_result", args: ["jobId"] },
  stopJob: { command: "stop_job", args: ["jobId"] },
  runs: { command: "runs", args: ["limit", "cursor"] },
  previewFile: { command: "preview_file", args: ["name", "text"] },
  submitFile: { command: "submit_file", args: ["name", "text", "harness", "runtime", "label"] },
  batches: { command: "batches", args: [] },
  batch: { command: "batch", args: ["id"] },
  compare: { command: "compare", args: ["base", "candidate"] },
  cancelBatch: { command: "cancel_batch", args: ["id"] },
  saveText: { command: "save_text", args: ["name", "text"] },
};

/** Each stream's name with the engine, and that of the argument that takes its channel in the desktop app. */
export const STREAMS: { [Name in keyof Streams]: { command: string; channel: string } } = {
  watch: { command: "watch", channel: "onEvent" },
  watchLog: { command: "watch_log", channel: "onLines" },
  watchFrames: { command: "watch_frames", channel: "onFrame" },
};

type Args = Record<string, unknown>;

/** One way to reach the engine. */
export interface Wire {
  call(command: string, args: Args): Promise<unknown>;
  subscribe<Message>(
    stream: { command: string; channel: string },
    args: Args,
    onMessage: (message: Message) => void,
    onLine?: (failure: Failure | null) => void,
  ): Promise<Stop>;
}

/** Makes a host of a way to reach the engine. What comes back has the contract's shape: both are built together. */
export function hostOver(wire: Wire): Host {
  const calls = Object.fromEntries(
    Object.entries(CALLS).map(([name, { command, args }]) => [
      name,
      (...given: unknown[]) => wire.call(command, Object.fromEntries(args.map((arg, at) => [arg, given[at]]))),
    ]),
  ) as unknown as Calls;
  return {
    ...calls,
    watch: (onEvent, onLine) => wire.subscribe(STREAMS.watch, {}, onEvent, onLine),
    watchLog: (onLines, jobId) => wire.subscribe(STREAMS.watchLog, { jobId }, onLines),
    watchFrames: (onFrame, jobId) => wire.subscribe(STREAMS.watchFrames, { jobId }, onFrame),
  };
}
