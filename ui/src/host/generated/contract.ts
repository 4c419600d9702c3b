// biome-ignore-all lint: generated
// biome-ignore-all format: generated
// Made from crates/app/src/control/view.rs by its test; EVERDICT_BLESS=1 writes it anew.

export type AppSnapshot = { 
/**
 * The number of the last event that is contained here.
 */
seq: number, 
/**
 * The app's own version.
 */
version: string, 
/**
 * Where this is.
 */
machine: MachineView, 
/**
 * The whole in one word.
 */
state: AppState, 
/**
 * What stands behind the word, in a sentence without its full stop; empty where the word says it all.
 */
stateText: string, 
/**
 * A code for what stands behind the word, such as `dns`, `revoked` or `keyring_locked`; `null` where there is none.
 */
cause: string | null, 
/**
 * When a hub last answered one of the runners.
 */
lastAnswerAt: string | null, 
/**
 * A time, or `resume` while paused until somebody resumes; `null` when not paused.
 */
pausedUntil: string | null, 
/**
 * The paired runners, in the order of pairing.
 */
runners: Array<RunnerView>, 
/**
 * What may run here.
 */
capabilities: Array<CapabilityView>, 
/**
 * The jobs that run now, oldest first.
 */
active: Array<JobView>, 
/**
 * What ended since midnight.
 */
today: TodayView, 
/**
 * Whether tokens can be kept in the system's keyring.
 */
keyring: KeyringState, 
/**
 * Whether something on this desktop shows tray icons.
 */
trayHost: boolean, 
/**
 * Why no new job is taken, where this machine's own terms say so.
 */
waiting: WaitingView | null, 
/**
 * Whether the system is kept from sleeping now, because a job runs.
 */
awake: boolean, 
/**
 * The jobs that wait for consent, oldest first.
 */
asks: Array<AskView>, 
/**
 * Why a hub gives this machine no jobs; `null` when none says so.
 */
hubPause: string | null, 
/**
 * How much of the CPUs jobs may take now.
 */
cpuShare: CpuShareView, 
/**
 * What is wrong with the settings file; what was in force before stays so.
 */
settingsFault: Failure | null, 
/**
 * Whether the app starts at login.
 */
autostart: AutostartState, 
/**
 * Whether notifications reach the person.
 */
notices: NoticesState, 
/**
 * A newer version; `null` where none is known.
 */
update: UpdateView | null, 
/**
 * A pairing link that waits for the person; `null` where there is none.
 */
deepLink: InvitationView | null, };

export type MachineView = { 
/**
 * Host name.
 */
name: string, 
/**
 * Operating system with its version, where it announces one.
 */
system: string, 
/**
 * Processor architecture.
 */
arch: string, 
/**
 * Logical CPUs that this process may use.
 */
cpus: number, 
/**
 * Where the embedded hub's database and what lasts is kept.
 */
dataFolder: string, 
/**
 * The person's own settings.
 */
settingsFile: string, };

export type AppState = "unpaired" | "idle" | "running" | "paused" | "waiting" | "offline" | "attention" | "starting";

export type RunnerView = { 
/**
 * The id that the hub gave.
 */
id: string, 
/**
 * What people call it.
 */
label: string, 
/**
 * The hub's address.
 */
hub: string, 
/**
 * What a run targets to land here.
 */
target: string, 
/**
 * What it does.
 */
state: AppState, 
/**
 * As in [`AppSnapshot`].
 */
stateText: string, 
/**
 * As in [`AppSnapshot`].
 */
cause: string | null, 
/**
 * When its hub last answered.
 */
lastAnswerAt: string | null, 
/**
 * Jobs that run now.
 */
active: number, 
/**
 * Jobs that it runs at the same time.
 */
slots: number, 
/**
 * Whether its hub is the one in this process.
 */
embedded: boolean, };

export type CapabilityView = { 
/**
 * Its name in the protocol.
 */
name: string, 
/**
 * Whether the person lets it be offered.
 */
on: boolean, 
/**
 * Whether it is.
 */
state: CapabilityState, 
/**
 * What the probe saw, in one line.
 */
reason: string, 
/**
 * What would make it available.
 */
fix: string | null, };

export type CapabilityState = "found" | "off-by-you" | "not-found" | "not-offered";

export type JobView = { 
/**
 * The lease's job.
 */
id: string, 
/**
 * The case.
 */
caseId: string, 
/**
 * `id@version`.
 */
harness: string, 
/**
 * In whose workspace, in the hub's words.
 */
workspace: string, 
/**
 * When it was leased.
 */
startedAt: string, 
/**
 * When its report was settled; `null` while it runs.
 */
endedAt: string | null, 
/**
 * What it came to; `null` while it runs.
 */
outcome: JobOutcome | null, 
/**
 * The label of the runner.
 */
runner: string, 
/**
 * Model tokens in and out, where the trace tells.
 */
tokens: number | null, 
/**
 * What the models cost, where the trace tells.
 */
costUsd: number | null, };

export type JobOutcome = "passed" | "failed" | "timed-out" | "unmeasured" | "infra" | "cancelled" | "handed-back";

export type TodayView = { 
/**
 * Passed.
 */
passed: number, 
/**
 * Failed.
 */
failed: number, 
/**
 * Timed out.
 */
timedOut: number, 
/**
 * Infra.
 */
infra: number, 
/**
 * Unmeasured.
 */
unmeasured: number, 
/**
 * Seconds that jobs ran, all together.
 */
seconds: number, };

export type KeyringState = "ok" | "unavailable" | "locked" | "denied";

export type AppEvent = { "kind": "snapshot", 
/**
 * One more than that of the event before.
 */
seq: number, 
/**
 * The state with this change in it.
 */
snapshot: AppSnapshot, } | { "kind": "job", 
/**
 * One more than that of the event before.
 */
seq: number, 
/**
 * The job as it is now.
 */
job: JobView, };

export type LogBatch = { 
/**
 * The number of the first line here, or of the next one where there is none.
 */
firstSeq: number, 
/**
 * The lines, in order.
 */
lines: Array<LogLine>, 
/**
 * How many lines before these are gone; absent when none.
 */
gap?: number, };

export type LogLine = { 
/**
 * Grows by one per line of the job, lines that are gone included.
 */
seq: number, 
/**
 * When it was seen here.
 */
at: string, 
/**
 * Who wrote it: `agent`, `runner`, `browser`, or the name of a container.
 */
stream: string, 
/**
 * The line without its end.
 */
text: string, };

export type JobDetail = { 
/**
 * The job.
 */
job: JobView, 
/**
 * Why it came to its outcome, where that isn't plain from the scores.
 */
failure: Failure | null, 
/**
 * What the graders said.
 */
scores: Array<ScoreView>, 
/**
 * How the working tree changed, where there was one.
 */
changes: ChangesView | null, 
/**
 * What happened, where it is known.
 */
trace: TraceView | null, 
/**
 * The result as JSON for reading; only of the latest jobs, and only while the app runs.
 */
raw: string | null, };

export type ScoreView = { 
/**
 * Which grader.
 */
grader: string, 
/**
 * Which metric.
 */
metric: string, 
/**
 * Whether there is a value.
 */
status: ScoreStatus, 
/**
 * The value, when there is one.
 */
value: number | null, 
/**
 * Passed, failed, or not a question of passing.
 */
pass: boolean | null, 
/**
 * A word for the value, where the grader gives one.
 */
label: string | null, 
/**
 * The grader's reason, or why there is no value.
 */
reason: string | null, };

export type ScoreStatus = "measured" | "unmeasured" | "invalid";

export type ChangesView = { 
/**
 * Files that changed.
 */
files: Array<string>, 
/**
 * A unified diff.
 */
diff: string, 
/**
 * Whether the diff is longer than what is kept.
 */
truncated: boolean, };

export type TraceView = { 
/**
 * All events.
 */
events: number, 
/**
 * Calls of a model.
 */
llmCalls: number, 
/**
 * Tools asked for.
 */
toolCalls: number, 
/**
 * Errors.
 */
errors: number, 
/**
 * Tokens that models read, where the trace tells.
 */
inputTokens: number | null, 
/**
 * Tokens that models wrote, where the trace tells.
 */
outputTokens: number | null, 
/**
 * What the models cost, where the trace tells.
 */
costUsd: number | null, 
/**
 * The first events, in order.
 */
steps: Array<TraceStep>, 
/**
 * Events that are not among the steps.
 */
leftOut: number, };

export type TraceStep = { 
/**
 * Milliseconds since the first event.
 */
at: number, 
/**
 * How long it took, in milliseconds.
 */
durationMs: number | null, 
/**
 * What it is.
 */
kind: StepKind, 
/**
 * Of which model, tool or part.
 */
name: string, 
/**
 * What it says, cut to a few lines.
 */
text: string | null, };

export type StepKind = "llm" | "tool" | "message" | "error" | "other";

export type Failure = { 
/**
 * The class, such as `input`, `refused` or `keyring_locked`.
 */
code: string, 
/**
 * What failed and why.
 */
message: string, 
/**
 * The next step.
 */
fix: string | null, };

export type WaitingView = { 
/**
 * The strongest reason.
 */
reason: WaitingReason, 
/**
 * All of them in words, without a full stop, such as `on battery`.
 */
text: string, 
/**
 * Since when nothing is taken.
 */
since: string, };

export type WaitingReason = "disk" | "battery" | "metered" | "hours" | "in-use";

export type AskView = { 
/**
 * What an answer names.
 */
id: string, 
/**
 * The hub that sent it.
 */
hub: string, 
/**
 * The workspace it is for.
 */
workspace: string, 
/**
 * `id@version`.
 */
harness: string, 
/**
 * What kind of thing would run.
 */
kind: ConsentKind, 
/**
 * The case.
 */
caseId: string, 
/**
 * When the job is given back.
 */
expiresAt: string, };

export type ConsentKind = "command" | "process" | "service" | "image";

export type ConsentView = { 
/**
 * What a revocation names.
 */
id: string, 
/**
 * The hub.
 */
hub: string, 
/**
 * The workspace.
 */
workspace: string, 
/**
 * The kind of thing.
 */
kind: ConsentKind, 
/**
 * The answer.
 */
answer: ConsentAnswer, 
/**
 * When it was given.
 */
at: string, };

export type ConsentAnswer = "once" | "always" | "never";

export type CpuShareView = { 
/**
 * Percent of all CPUs that may be used.
 */
percent: number, 
/**
 * Whether that is the share for a machine in use.
 */
inUse: boolean, 
/**
 * How it is kept for programs.
 */
means: CpuMeans, 
/**
 * What that means exactly, in a sentence without its full stop.
 */
text: string, };

export type CpuMeans = "unlimited" | "quota" | "affinity" | "none";

export type SettingView = { 
/**
 * `table.key` of the settings file.
 */
key: string, 
/**
 * The table.
 */
group: string, 
/**
 * What its value is.
 */
kind: SettingKind, 
/**
 * The value in force.
 */
value: SettingValue, 
/**
 * The value when nothing is set.
 */
default: SettingValue, 
/**
 * Whether a change takes effect only when the app starts next.
 */
atStart: boolean, 
/**
 * The values that there are; of a list, the ones it may hold.
 */
choices?: Array<string>, 
/**
 * The least.
 */
min?: number, 
/**
 * The most.
 */
max?: number, 
/**
 * What a number counts.
 */
unit?: string, 
/**
 * What it means, from the documented defaults.
 */
help: string, };

export type SettingKind = "number" | "switch" | "text" | "choice" | "list";

export type SettingValue = number | boolean | string | Array<string>;

export type CheckView = { 
/**
 * Stable name, such as `git` or `hub:127.0.0.1:8787`.
 */
id: string, 
/**
 * What it belongs to.
 */
group: CheckGroup, 
/**
 * How it came out.
 */
state: CheckMark, 
/**
 * What was looked at.
 */
title: string, 
/**
 * What was found.
 */
detail: string, 
/**
 * What to do; `null` when there is nothing.
 */
fix: string | null, };

export type CheckGroup = "machine" | "docker" | "secrets" | "hub" | "runner";

export type CheckMark = "ok" | "warn" | "fail" | "off";

export type DiskView = { 
/**
 * Free bytes where cases work; `null` when it can't be measured.
 */
free: number | null, 
/**
 * Bytes below which no case with containers is taken; `null` for no such limit.
 */
floor: number | null, 
/**
 * What there is, by kind.
 */
categories: Array<DiskCategory>, };

export type DiskCategory = { 
/**
 * Stable name; what a clean-up is asked for by.
 */
id: string, 
/**
 * Its name for people.
 */
title: string, 
/**
 * Bytes of all of it.
 */
bytes: number, 
/**
 * How many pieces.
 */
items: number, 
/**
 * The pieces that a clean-up would remove.
 */
wouldGo: Array<string>, };

export type CleanView = { 
/**
 * What went.
 */
removed: Array<string>, 
/**
 * What stays, and why.
 */
kept: Array<KeptView>, 
/**
 * Bytes that went with it.
 */
freed: number, };

export type KeptView = { 
/**
 * Which.
 */
name: string, 
/**
 * Why it stays.
 */
why: string, };

export type RunsView = { 
/**
 * Newest first.
 */
runs: Array<RunView>, 
/**
 * What gives the next page; `null` on the last one.
 */
nextCursor: string | null, };

export type RunView = { 
/**
 * Its id, which is that of its job too.
 */
id: string, 
/**
 * The batch it was submitted in.
 */
batch: string | null, 
/**
 * The case.
 */
caseId: string, 
/**
 * `id@version`.
 */
harness: string, 
/**
 * Where it was to run, in the submitter's words.
 */
runtime: string, 
/**
 * How far it has come.
 */
status: RunState, 
/**
 * What it came to; `null` until it has ended.
 */
outcome: JobOutcome | null, 
/**
 * The mean of the scores that have a value; `null` where none has.
 */
score: number | null, 
/**
 * When it was submitted.
 */
submittedAt: string, 
/**
 * When a runner first took it.
 */
startedAt: string | null, 
/**
 * When it ended.
 */
endedAt: string | null, 
/**
 * The runner that has it or had it last, by its label where that is known here.
 */
runner: string | null, };

export type RunState = "queued" | "running" | "ended";

export type PreviewView = { 
/**
 * What it is.
 */
kind: FileKind, 
/**
 * The cases that could be read, the first thousand of them.
 */
cases: Array<PreviewCase>, 
/**
 * What keeps it from being submitted.
 */
problems: Array<FileProblem>, };

export type FileKind = "case" | "dataset" | "harness";

export type PreviewCase = { 
/**
 * Its id.
 */
id: string, 
/**
 * The kind of its environment.
 */
env: string, 
/**
 * The ids of its graders.
 */
graders: Array<string>, 
/**
 * `id@version` where it names a harness itself.
 */
harness: string | null, };

export type FileProblem = { 
/**
 * `file:line`, or `file[index]` in an array.
 */
place: string, 
/**
 * What is wrong there, with the path of the field.
 */
message: string, };

export type SubmittedView = { 
/**
 * The batch.
 */
batch: string, 
/**
 * Its runs, in the order of the file.
 */
runs: Array<string>, };

export type BatchView = { 
/**
 * Its id.
 */
id: string, 
/**
 * What people call it.
 */
label: string, 
/**
 * When the first of it was submitted.
 */
submittedAt: string, 
/**
 * How many runs.
 */
total: number, 
/**
 * How many of them have ended.
 */
done: number, 
/**
 * Passed.
 */
passed: number, 
/**
 * Failed.
 */
failed: number, 
/**
 * Timed out.
 */
timedOut: number, 
/**
 * Infra, not counted; cancelled ones too.
 */
infra: number, 
/**
 * Unmeasured.
 */
unmeasured: number, };

export type BatchDetail = { 
/**
 * The batch.
 */
batch: BatchView, 
/**
 * Its runs, in the order in which they were submitted.
 */
rows: Array<RunView>, };

export type CompareView = { 
/**
 * Passed now and didn't before.
 */
fixed: Array<string>, 
/**
 * Passed before and doesn't now.
 */
broken: Array<string>, 
/**
 * Came to something else, and passed neither time.
 */
changed: Array<string>, 
/**
 * How many came to the same.
 */
same: number, 
/**
 * In one of the two only, or not over yet in one.
 */
missing: Array<string>, };

export type FrameView = { 
/**
 * Grows with every frame of the job; those that nobody could see in time are left out.
 */
seq: number, 
/**
 * When it was seen here.
 */
at: string, 
/**
 * The address of the page, where it is known.
 */
url: string | null, 
/**
 * Such as `image/png`.
 */
mime: string, 
/**
 * The picture, base64.
 */
data: string, };

export type AutostartState = "on" | "off" | "unavailable";

export type NoticesState = "ok" | "denied" | "unavailable";

export type UpdateView = { 
/**
 * How far it is.
 */
state: UpdateState, 
/**
 * The version that this is about.
 */
version: string, 
/**
 * What happened and what comes next, in a sentence without its full stop.
 */
text: string, };

export type UpdateState = "waiting" | "ready" | "failed" | "rolled-back";

export type InvitationView = { 
/**
 * The hub's address; empty when the link can't be used.
 */
hub: string, 
/**
 * A name for this machine to start from.
 */
label: string, 
/**
 * What the link asks for, in a sentence without its full stop.
 */
text: string, 
/**
 * Why the link can't be used; only dismissing it is left then.
 */
problem: Failure | null, };
