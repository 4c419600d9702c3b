/**
 * The engine's shapes as the page uses them: the generated ones, and those that the engine is about to send.
 * What stands here besides the first line goes as `generated/contract.ts` gains it.
 */
import type * as made from "./generated/contract";

export type * from "./generated/contract";

export interface UpdateView {
  state: "waiting" | "ready" | "failed" | "rolled-back";
  version: string;
  text: string;
}

export interface InvitationView {
  hub: string;
  label: string;
  text: string;
  problem: made.Failure | null;
}

export interface AppSnapshot extends made.AppSnapshot {
  autostart: "on" | "off" | "unavailable";
  notices: "ok" | "denied" | "unavailable";
  update: UpdateView | null;
  deepLink: InvitationView | null;
}

export type AppEvent =
  | { kind: "snapshot"; seq: number; snapshot: AppSnapshot }
  | { kind: "job"; seq: number; job: made.JobView };

export type LogLine = made.LogLine & { stream: string };
export type LogBatch = Omit<made.LogBatch, "lines"> & { lines: LogLine[] };

export type CheckGroup = "machine" | "docker" | "secrets" | "hub" | "runner";
export interface CheckView {
  id: string;
  group: CheckGroup;
  state: "ok" | "warn" | "fail" | "off";
  title: string;
  detail: string;
  fix: string | null;
}

export interface DiskCategory {
  id: string;
  title: string;
  bytes: number;
  items: number;
  wouldGo: string[];
}
export interface DiskView {
  free: number | null;
  floor: number | null;
  categories: DiskCategory[];
}
export interface CleanView {
  removed: string[];
  kept: { name: string; why: string }[];
  freed: number;
}

export type RunState = "queued" | "running" | "ended";
export interface RunView {
  id: string;
  batch: string | null;
  caseId: string;
  harness: string;
  runtime: string;
  status: RunState;
  outcome: made.JobOutcome | null;
  score: number | null;
  submittedAt: string;
  startedAt: string | null;
  endedAt: string | null;
  runner: string | null;
}
export interface RunsView {
  runs: RunView[];
  nextCursor: string | null;
}

export interface PreviewCase {
  id: string;
  env: string;
  graders: string[];
  harness: string | null;
}
export interface PreviewView {
  kind: "case" | "dataset" | "harness";
  cases: PreviewCase[];
  problems: { place: string; message: string }[];
}
export interface SubmittedView {
  batch: string;
  runs: string[];
}
export interface BatchView {
  id: string;
  label: string;
  submittedAt: string;
  total: number;
  done: number;
  passed: number;
  failed: number;
  timedOut: number;
  infra: number;
  unmeasured: number;
}
export interface BatchDetail {
  batch: BatchView;
  rows: RunView[];
}
export interface CompareView {
  fixed: string[];
  broken: string[];
  changed: string[];
  same: number;
  missing: string[];
}

export interface FrameView {
  seq: number;
  at: string;
  url: string | null;
  mime: string;
  data: string;
}

/** What an engine that doesn't send these yet would say. */
export const SECOND_STEP = {
  autostart: "unavailable",
  notices: "ok",
  update: null,
  deepLink: null,
} satisfies Partial<AppSnapshot>;
