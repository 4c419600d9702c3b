import { Channel, invoke } from "@tauri-apps/api/core";
import type { AppEvent, AppSnapshot, JobDetail, JobView, LogBatch } from "./generated/contract";
import type { Host, Stop } from "./host";

/** Opens a channel for `command`; the subscription ends at both sides when the returned function is called. */
async function subscribe<T>(
  command: string,
  place: string,
  args: Record<string, unknown>,
  onMessage: (message: T) => void,
): Promise<Stop> {
  let open = true;
  const channel = new Channel<T>((message) => {
    if (open) onMessage(message);
  });
  const id = await invoke<number>(command, { ...args, [place]: channel });
  return () => {
    if (!open) return;
    open = false;
    // The window may be closing; the engine drops the subscriptions of a closed window itself.
    invoke("unwatch", { id }).catch(() => {});
  };
}

/** Asks the desktop app that owns this web view. */
export const tauriHost: Host = {
  snapshot: () => invoke<AppSnapshot>("snapshot"),
  watch: (onEvent) => subscribe<AppEvent>("watch", "onEvent", {}, onEvent),
  pairThisComputer: (label, allowFileStore) => invoke("pair_this_computer", { label, allowFileStore }),
  pairWithToken: (hubUrl, text, label, allowFileStore) =>
    invoke("pair_with_token", { hubUrl, text, label, allowFileStore }),
  pairWithApiKey: (hubUrl, apiKey, label, allowFileStore) =>
    invoke("pair_with_api_key", { hubUrl, apiKey, label, allowFileStore }),
  unpair: (runnerId) => invoke("unpair", { runnerId }),
  pause: (forSeconds) => invoke("pause", { forSeconds }),
  resume: () => invoke("resume"),
  setCapability: (name, on) => invoke("set_capability", { name, on }),
  submitSample: () => invoke<string>("submit_sample"),
  jobs: (limit) => invoke<JobView[]>("jobs", { limit }),
  watchLog: (jobId, onLines) => subscribe<LogBatch>("watch_log", "onLines", { jobId }, onLines),
  jobResult: (jobId) => invoke<JobDetail>("job_result", { jobId }),
  stopJob: (jobId) => invoke("stop_job", { jobId }),
};
