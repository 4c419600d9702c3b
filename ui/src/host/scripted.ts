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
  LogLine,
  PreviewView,
  RunnerView,
  RunsView,
  RunView,
  SettingValue,
  SettingView,
  SubmittedView,
} from "./generated/contract";
import type { Host, Stop } from "./host";
import { saveText } from "./http";
import { EMPTY_SNAPSHOT, runner, type Script } from "./script";

export { EMPTY_SNAPSHOT, runner, type Script };

/** A host over simulated state: what a real one would answer, with no engine behind it. */
export class ScriptedHost implements Host {
  /** The calls that change something, in order, for tests to look at. */
  readonly calls: unknown[][] = [];
  #state: AppSnapshot;
  #jobs: JobView[];
  readonly #script: Script;
  #browser: ((failure?: Failure) => void) | null = null;
  readonly #watchers = new Set<(event: AppEvent) => void>();
  readonly #logWatchers = new Map<string, Set<(batch: LogBatch) => void>>();
  readonly #logs: Map<string, LogLine[]>;
  readonly #frameWatchers = new Map<string, Set<(frame: FrameView) => void>>();
  readonly #lines = new Set<(failure: Failure | null) => void>();
  #settings: SettingView[];
  #consents: ConsentView[];
  #disk: DiskView;
  #batches: BatchDetail[];

  constructor(script: Script = {}) {
    this.#script = script;
    this.#state = { ...EMPTY_SNAPSHOT, ...script.snapshot };
    this.#jobs = script.jobs ?? [];
    this.#logs = new Map(Object.entries(script.logs ?? {}));
    this.#settings = script.settings ?? [];
    this.#consents = script.consents ?? [];
    this.#disk = script.disk ?? { free: 0, floor: null, categories: [] };
    this.#batches = script.batches ?? [];
  }

  async snapshot(): Promise<AppSnapshot> {
    this.#refuse("snapshot");
    return this.#state;
  }

  async watch(onEvent: (event: AppEvent) => void, onLine?: (failure: Failure | null) => void): Promise<Stop> {
    this.#refuse("watch");
    this.#watchers.add(onEvent);
    if (onLine !== undefined) this.#lines.add(onLine);
    return () => {
      this.#watchers.delete(onEvent);
      if (onLine !== undefined) this.#lines.delete(onLine);
    };
  }

  /** The connection to the engine breaks, or is back with `null`. */
  line(failure: Failure | null): void {
    for (const line of this.#lines) line(failure);
  }

  get watchers(): number {
    const sets: Set<unknown>[] = [...this.#logWatchers.values(), ...this.#frameWatchers.values()];
    return this.#watchers.size + sets.reduce((sum, set) => sum + set.size, 0);
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

  async signInMethods(_hubUrl: string): Promise<string[]> {
    this.#refuse("signInMethods");
    return this.#script.methods ?? ["key"];
  }

  async signIn(hubUrl: string, label: string, allowFile: boolean): Promise<void> {
    this.#takeToken(allowFile);
    this.#record("signIn", hubUrl, label);
    await new Promise<void>((resolve, reject) => {
      this.#browser = (failure) => (failure === undefined ? resolve() : reject(failure));
    });
    this.#pair(runner(`r-${this.#state.runners.length + 1}`, label, hubUrl, false));
  }

  async cancelSignIn(): Promise<void> {
    this.#record("cancelSignIn");
    this.comeBack({ code: "sign_in_cancelled", message: "the sign-in was cancelled", fix: null });
  }

  /** The person comes back from the browser, signed in or not. */
  comeBack(failure?: Failure): void {
    this.#browser?.(failure);
    this.#browser = null;
  }

  async unpair(runnerId: string): Promise<void> {
    this.#record("unpair", runnerId);
    const runners = this.#state.runners.filter((one) => one.id !== runnerId);
    this.change({ runners, ...(runners.length === 0 ? { state: "unpaired" as const, lastAnswerAt: null } : {}) });
  }

  async pairAgain(runnerId: string): Promise<void> {
    this.#record("pairAgain", runnerId);
    const old = this.#state.runners.find((one) => one.id === runnerId);
    if (old === undefined) return;
    const runners = this.#state.runners.filter((one) => one.id !== runnerId);
    this.change({ state: "idle", runners: [...runners, runner(`${runnerId}-again`, old.label, old.hub, true)] });
  }

  async reconnect(runnerId: string): Promise<void> {
    this.#record("reconnect", runnerId);
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

  async watchLog(onLines: (batch: LogBatch) => void, jobId: string): Promise<Stop> {
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

  async watchFrames(onFrame: (frame: FrameView) => void, jobId: string): Promise<Stop> {
    this.#refuse("watchFrames");
    const watchers = this.#frameWatchers.get(jobId) ?? new Set();
    this.#frameWatchers.set(jobId, watchers.add(onFrame));
    for (const frame of this.#script.frames?.[jobId] ?? []) onFrame(frame);
    return () => watchers.delete(onFrame);
  }

  frame(jobId: string, frame: FrameView): void {
    for (const watcher of this.#frameWatchers.get(jobId) ?? []) watcher(frame);
  }

  async acceptLink(label: string, allowFile: boolean): Promise<void> {
    this.#takeToken(allowFile);
    this.#record("acceptLink", label);
    const hub = this.#state.deepLink?.hub ?? "";
    this.change({ deepLink: null });
    this.#pair(runner(`r-${this.#state.runners.length + 1}`, label, hub, false));
  }

  async dismissLink(): Promise<void> {
    this.#record("dismissLink");
    this.change({ deepLink: null });
  }

  async finishThenPause(): Promise<void> {
    this.#record("finishThenPause");
    if (this.#state.active.length === 0) this.change({ state: "paused", pausedUntil: "resume" });
  }

  async settings(): Promise<SettingView[]> {
    this.#refuse("settings");
    return this.#settings;
  }

  async saveSetting(key: string, value: SettingValue | null): Promise<SettingView[]> {
    this.#record("saveSetting", key, value);
    this.#settings = this.#settings.map((one) => {
      if (one.key !== key) return one;
      const next = value ?? one.default;
      if (typeof next === "number" && next > (one.max ?? next)) {
        throw { code: "input", message: `${key} is at most ${one.max}`, fix: null } satisfies Failure;
      }
      return { ...one, value: next };
    });
    return this.#settings;
  }

  async setAutostart(on: boolean): Promise<void> {
    this.#record("setAutostart", on);
    this.change({ autostart: on ? "on" : "off" });
  }

  async consents(): Promise<ConsentView[]> {
    this.#refuse("consents");
    return this.#consents;
  }

  async answerAsk(id: string, answer: ConsentAnswer): Promise<void> {
    this.#record("answerAsk", id, answer);
    const ask = this.#state.asks.find((one) => one.id === id);
    if (ask !== undefined && answer !== "once") {
      const { hub, workspace, kind } = ask;
      this.#consents = [...this.#consents, { id, hub, workspace, kind, answer, at: new Date().toISOString() }];
    }
    this.change({ asks: this.#state.asks.filter((one) => one.id !== id) });
  }

  async revokeConsent(id: string): Promise<void> {
    this.#record("revokeConsent", id);
    this.#consents = this.#consents.filter((one) => one.id !== id);
  }

  async doctor(): Promise<CheckView[]> {
    this.#refuse("doctor");
    return this.#script.checks ?? [];
  }

  async disk(): Promise<DiskView> {
    this.#refuse("disk");
    return this.#disk;
  }

  async clean(category: string): Promise<CleanView> {
    this.#record("clean", category);
    const one = this.#disk.categories.find((found) => found.id === category);
    const result = this.#script.cleaned?.[category] ?? {
      removed: one?.wouldGo ?? [],
      kept: [],
      freed: one?.bytes ?? 0,
    };
    const categories = this.#disk.categories.map((found) =>
      found.id === category
        ? { ...found, bytes: found.bytes - result.freed, items: found.items - result.removed.length, wouldGo: [] }
        : found,
    );
    this.#disk = { ...this.#disk, free: (this.#disk.free ?? 0) + result.freed, categories };
    return result;
  }

  async ownLog(lines: number): Promise<string[]> {
    this.#refuse("ownLog");
    return (this.#script.ownLog ?? []).slice(-lines);
  }

  async report(): Promise<string> {
    this.#refuse("report");
    return ["Everdict Runner 0.1.0", ...(this.#script.ownLog ?? [])].join("\n");
  }

  async runs(limit: number): Promise<RunsView> {
    this.#refuse("runs");
    const runs: RunView[] = this.#batches.flatMap((one) => one.rows);
    return { runs: runs.slice(0, limit), nextCursor: null };
  }

  async previewFile(name: string, text: string): Promise<PreviewView> {
    this.#record("previewFile", name, text.length);
    return this.#preview(name);
  }

  #preview(name: string): PreviewView {
    const one = { env: "scratch folder", graders: ["tests-pass"], harness: null };
    return (
      this.#script.previews?.[name] ?? {
        kind: "dataset",
        cases: [
          { id: "first-case", ...one },
          { id: "second-case", ...one },
        ],
        problems: [],
      }
    );
  }

  async submitFile(
    name: string,
    _text: string,
    harness: string | null,
    runtime: string | null,
    label: string | null,
  ): Promise<SubmittedView> {
    this.#record("submitFile", name, harness, runtime, label);
    const { cases } = this.#preview(name);
    const id = `b-${this.#batches.length + 1}`;
    const submittedAt = new Date().toISOString();
    const rows = cases.map((one, at) => ({
      id: `${id}-${at}`,
      batch: id,
      caseId: one.id,
      harness: harness ?? one.harness ?? "shell@1",
      runtime: runtime ?? "self",
      status: "queued" as const,
      outcome: null,
      score: null,
      submittedAt,
      startedAt: null,
      endedAt: null,
      runner: null,
    }));
    const none = { done: 0, passed: 0, failed: 0, timedOut: 0, infra: 0, unmeasured: 0 };
    this.#batches = [
      { batch: { id, label: label ?? name, submittedAt, total: rows.length, ...none }, rows },
      ...this.#batches,
    ];
    return { batch: id, runs: rows.map((row) => row.id) };
  }

  async batches(): Promise<BatchView[]> {
    this.#refuse("batches");
    return this.#batches.map((one) => one.batch);
  }

  async batch(id: string): Promise<BatchDetail> {
    this.#refuse("batch");
    const found = this.#batches.find((one) => one.batch.id === id);
    if (found === undefined) throw { code: "NOT_FOUND", message: `no batch ${id}`, fix: null } satisfies Failure;
    return found;
  }

  async compare(base: string, candidate: string): Promise<CompareView> {
    this.#refuse("compare");
    return (
      this.#script.comparisons?.[`${base} ${candidate}`] ?? {
        fixed: [],
        broken: [],
        changed: [],
        same: 0,
        missing: [],
      }
    );
  }

  async cancelBatch(id: string): Promise<void> {
    this.#record("cancelBatch", id);
    const endedAt = new Date().toISOString();
    const cancelled = { status: "ended" as const, outcome: "cancelled" as const, endedAt };
    this.#batches = this.#batches.map((one) =>
      one.batch.id === id
        ? {
            batch: { ...one.batch, done: one.batch.total },
            rows: one.rows.map((row) => (row.endedAt === null ? { ...row, ...cancelled } : row)),
          }
        : one,
    );
  }

  /** A batch as the hub has it now. */
  setBatch(detail: BatchDetail): void {
    this.#batches = this.#batches.map((one) => (one.batch.id === detail.batch.id ? detail : one));
  }

  async saveText(name: string, text: string): Promise<string | null> {
    this.#record("saveText", name, text.length);
    return this.#script.saved === undefined ? saveText(name, text) : `${this.#script.saved}/${name}`;
  }

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

  log(jobId: string, texts: string[], gap = 0, stream = "agent"): void {
    const lines = this.#logs.get(jobId) ?? [];
    const firstSeq = (lines.at(-1)?.seq ?? -1) + 1 + gap;
    const at = new Date().toISOString();
    const fresh = texts.map((text, i) => ({ seq: firstSeq + i, at, stream, text }));
    this.#logs.set(jobId, [...lines, ...fresh]);
    for (const watcher of this.#logWatchers.get(jobId) ?? []) {
      watcher({ firstSeq, lines: fresh, ...(gap > 0 ? { gap } : {}) });
    }
  }

  /** Hands lines to whoever watches and keeps none, as an engine with a short memory. */
  feed(batch: LogBatch): void {
    for (const watchers of this.#logWatchers.values()) for (const watcher of watchers) watcher(batch);
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
