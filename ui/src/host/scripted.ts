import type {
  AppEvent,
  AppSnapshot,
  Failure,
  JobDetail,
  JobView,
  LogBatch,
  LogLine,
  RunnerView,
} from "./generated/contract";
import type { Host, Stop } from "./host";
import { SAMPLE_DETAIL, SAMPLE_JOBS, sampleLog } from "./scripted-data";

export interface Script {
  snapshot?: Partial<AppSnapshot>;
  jobs?: JobView[];
  details?: Record<string, JobDetail>;
  logs?: Record<string, LogLine[]>;
  /** Calls that are refused, by name. */
  refuse?: Partial<Record<keyof Host, Failure>>;
}

export const EMPTY_SNAPSHOT: AppSnapshot = {
  seq: 0,
  version: "0.1.0",
  machine: { name: "workbench", system: "Debian GNU/Linux 12 (bookworm)", arch: "x86_64", cpus: 8 },
  state: "unpaired",
  stateText: "",
  lastAnswerAt: null,
  pausedUntil: null,
  runners: [],
  capabilities: [
    { name: "git", on: true, state: "found", reason: "git 2.39.5", fix: null },
    {
      name: "docker",
      on: true,
      state: "not-found",
      reason: "Docker isn't answering at /var/run/docker.sock",
      fix: "start Docker, then it turns on by itself",
    },
    { name: "browser", on: false, state: "off-by-you", reason: "Chromium 156 is installed", fix: null },
  ],
  active: [],
  today: { passed: 0, failed: 0, timedOut: 0, infra: 0, unmeasured: 0, seconds: 0 },
  keyring: "ok",
  trayHost: true,
};

function runner(id: string, label: string, hub: string, embedded: boolean): RunnerView {
  const lastAnswerAt = new Date().toISOString();
  return {
    id,
    label,
    hub,
    target: `self:${id}`,
    state: "idle",
    stateText: "",
    lastAnswerAt,
    active: 0,
    slots: 2,
    embedded,
  };
}

/** A host over simulated state: what a real one would answer, with no engine behind it. */
export class ScriptedHost implements Host {
  /** The calls that change something, in order, for tests to look at. */
  readonly calls: unknown[][] = [];
  #state: AppSnapshot;
  #jobs: JobView[];
  readonly #script: Script;
  readonly #watchers = new Set<(event: AppEvent) => void>();
  readonly #logWatchers = new Map<string, Set<(batch: LogBatch) => void>>();
  readonly #logs: Map<string, LogLine[]>;

  constructor(script: Script = {}) {
    this.#script = script;
    this.#state = { ...EMPTY_SNAPSHOT, ...script.snapshot };
    this.#jobs = script.jobs ?? [];
    this.#logs = new Map(Object.entries(script.logs ?? {}));
  }

  async snapshot(): Promise<AppSnapshot> {
    this.#refuse("snapshot");
    return this.#state;
  }

  async watch(onEvent: (event: AppEvent) => void): Promise<Stop> {
    this.#refuse("watch");
    this.#watchers.add(onEvent);
    return () => this.#watchers.delete(onEvent);
  }

  get watchers(): number {
    return this.#watchers.size + [...this.#logWatchers.values()].reduce((sum, set) => sum + set.size, 0);
  }

  async pairThisComputer(label: string, allowFile: boolean): Promise<void> {
    this.#takeToken(allowFile);
    this.#record("pairThisComputer", label);
    this.#pair(runner("local", label, "http://127.0.0.1:8787", true));
  }

  async pairWithToken(hubUrl: string, text: string, label: string, allowFile: boolean): Promise<void> {
    this.#takeToken(allowFile);
    this.#record("pairWithToken", hubUrl, text, label);
    this.#pair(runner(`r-${this.#state.runners.length + 1}`, label, hubUrl, false));
  }

  async pairWithApiKey(hubUrl: string, apiKey: string, label: string, allowFile: boolean): Promise<void> {
    this.#takeToken(allowFile);
    this.#record("pairWithApiKey", hubUrl, apiKey, label);
    this.#pair(runner(`r-${this.#state.runners.length + 1}`, label, hubUrl, false));
  }

  async unpair(runnerId: string): Promise<void> {
    this.#record("unpair", runnerId);
    const runners = this.#state.runners.filter((one) => one.id !== runnerId);
    this.change({ runners, ...(runners.length === 0 ? { state: "unpaired" as const, lastAnswerAt: null } : {}) });
  }

  async pause(forSeconds: number | null): Promise<void> {
    this.#record("pause", forSeconds);
    const pausedUntil = forSeconds === null ? "resume" : new Date(Date.now() + forSeconds * 1000).toISOString();
    this.change({
      state: "paused",
      pausedUntil,
      runners: this.#state.runners.map((one) => ({ ...one, state: "paused" as const })),
    });
  }

  async resume(): Promise<void> {
    this.#record("resume");
    this.change({
      state: "idle",
      pausedUntil: null,
      runners: this.#state.runners.map((one) => ({ ...one, state: "idle" as const })),
    });
  }

  async setCapability(name: string, on: boolean): Promise<void> {
    this.#record("setCapability", name, on);
    this.change({
      capabilities: this.#state.capabilities.map((one) =>
        one.name === name ? { ...one, on, state: on ? "found" : "off-by-you" } : one,
      ),
    });
  }

  async submitSample(): Promise<string> {
    this.#record("submitSample");
    const id = `run-${this.#jobs.length + 1}`;
    this.setJob({
      id,
      caseId: "hello-runner",
      harness: "shell@1",
      workspace: "local",
      startedAt: new Date().toISOString(),
      endedAt: null,
      outcome: null,
      runner: this.#state.machine.name,
      tokens: null,
      costUsd: null,
    });
    return id;
  }

  async jobs(limit: number): Promise<JobView[]> {
    this.#refuse("jobs");
    return this.#jobs.slice(0, limit);
  }

  async watchLog(jobId: string, onLines: (batch: LogBatch) => void): Promise<Stop> {
    this.#refuse("watchLog");
    const watchers = this.#logWatchers.get(jobId) ?? new Set();
    this.#logWatchers.set(jobId, watchers.add(onLines));
    const lines = this.#logs.get(jobId) ?? [];
    if (lines.length > 0) onLines({ firstSeq: lines[0]?.seq ?? 0, lines });
    return () => watchers.delete(onLines);
  }

  async jobResult(jobId: string): Promise<JobDetail> {
    this.#refuse("jobResult");
    const detail = this.#script.details?.[jobId];
    if (detail !== undefined) return detail;
    const job = this.#jobs.find((one) => one.id === jobId);
    if (job === undefined) throw { code: "NOT_FOUND", message: `no job ${jobId}`, fix: null } satisfies Failure;
    return { job, failure: null, scores: [], changes: null, trace: null, raw: null };
  }

  async stopJob(jobId: string): Promise<void> {
    this.#record("stopJob", jobId);
    const job = this.#jobs.find((one) => one.id === jobId);
    if (job !== undefined) this.setJob({ ...job, endedAt: new Date().toISOString(), outcome: "cancelled" });
  }

  saveText = (name: string, text: string): void => {
    this.#record("saveText", name, text.length);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  };

  /** Changes the state as an engine would, and tells the watchers; `skip` numbers are lost on the way. */
  change(change: Partial<AppSnapshot>, skip = 0): void {
    const seq = this.#state.seq + 1 + skip;
    this.#state = { ...this.#state, ...change, seq };
    for (const watcher of this.#watchers) watcher({ seq, kind: "snapshot", snapshot: this.#state });
  }

  setJob(job: JobView): void {
    const rest = this.#jobs.filter((one) => one.id !== job.id);
    this.#jobs = [job, ...rest];
    const others = this.#state.active.filter((one) => one.id !== job.id);
    const seq = this.#state.seq + 1;
    this.#state = { ...this.#state, seq, active: job.endedAt === null ? [...others, job] : others };
    for (const watcher of this.#watchers) watcher({ seq, kind: "job", job });
  }

  log(jobId: string, texts: string[], gap = 0): void {
    const lines = this.#logs.get(jobId) ?? [];
    const firstSeq = (lines.at(-1)?.seq ?? -1) + 1 + gap;
    const at = new Date().toISOString();
    const fresh = texts.map((text, i) => ({ seq: firstSeq + i, at, text }));
    this.#logs.set(jobId, [...lines, ...fresh]);
    for (const watcher of this.#logWatchers.get(jobId) ?? []) {
      watcher({ firstSeq, lines: fresh, ...(gap > 0 ? { gap } : {}) });
    }
  }

  #pair(one: RunnerView): void {
    this.change({ state: "idle", lastAnswerAt: one.lastAnswerAt, runners: [...this.#state.runners, one] });
  }

  #takeToken(allowFile: boolean): void {
    if (this.#state.keyring === "ok" || allowFile) return;
    throw {
      code: `keyring_${this.#state.keyring}`,
      message: "this machine offers no keyring",
      fix: null,
    } satisfies Failure;
  }

  #record(call: keyof Host, ...args: unknown[]): void {
    this.calls.push([call, ...args]);
    this.#refuse(call);
  }

  #refuse(call: keyof Host): void {
    const failure = this.#script.refuse?.[call];
    if (failure !== undefined) throw failure;
  }
}

/** The host of `vite dev`: a day of work on a paired machine, or a fresh one with `?fresh`. */
export function demoHost(query: string): Host {
  if (query.includes("fresh")) return new ScriptedHost();
  const jobs = SAMPLE_JOBS;
  const active = jobs.filter((job) => job.endedAt === null);
  const answered = new Date(Date.now() - 3000).toISOString();
  const host = new ScriptedHost({
    snapshot: {
      state: "running",
      lastAnswerAt: answered,
      runners: [
        {
          ...runner("7f3c91d2", "workbench", "http://127.0.0.1:8787", true),
          state: "running",
          active: 1,
          lastAnswerAt: answered,
        },
        {
          ...runner("b81e44a0", "workbench (evals)", "https://team.example", false),
          ...(query.includes("offline")
            ? {
                state: "offline" as const,
                stateText: "name not found",
                lastAnswerAt: new Date(Date.now() - 260_000).toISOString(),
              }
            : {}),
        },
      ],
      capabilities: [
        ...EMPTY_SNAPSHOT.capabilities.filter((one) => one.name === "git"),
        { name: "docker", on: true, state: "found", reason: "Docker 27.3 answers", fix: null },
        { name: "browser", on: false, state: "off-by-you", reason: "Chromium 156 is installed", fix: null },
        {
          name: "claude-login",
          on: false,
          state: "not-found",
          reason: "no login of your own was found",
          fix: "run claude login in a terminal",
        },
      ],
      active,
      today: { passed: 14, failed: 2, timedOut: 1, infra: 1, unmeasured: 0, seconds: 372 },
    },
    jobs,
    details: SAMPLE_DETAIL,
    logs: Object.fromEntries(jobs.map((job) => [job.id, sampleLog(job, query.includes("long") ? 100_000 : 140)])),
  });
  if (active[0] !== undefined && !query.includes("still")) {
    const id = active[0].id;
    let step = 0;
    setInterval(() => host.log(id, [`\u001b[2m[agent]\u001b[0m step ${++step}: reading src/parser.rs`]), 900);
  }
  return host;
}
