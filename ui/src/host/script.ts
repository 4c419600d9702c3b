import type {
  AppSnapshot,
  BatchDetail,
  CheckView,
  CleanView,
  CompareView,
  ConsentView,
  DiskView,
  Failure,
  FrameView,
  JobDetail,
  JobView,
  LogLine,
  PreviewView,
  RunnerView,
  SettingView,
} from "./generated/contract";
import type { Host } from "./host";

/** What a scripted engine begins with. */
export interface Script {
  snapshot?: Partial<AppSnapshot>;
  jobs?: JobView[];
  details?: Record<string, JobDetail>;
  logs?: Record<string, LogLine[]>;
  frames?: Record<string, FrameView[]>;
  settings?: SettingView[];
  consents?: ConsentView[];
  checks?: CheckView[];
  disk?: DiskView;
  cleaned?: Record<string, CleanView>;
  ownLog?: string[];
  batches?: BatchDetail[];
  comparisons?: Record<string, CompareView>;
  /** What a file comes to, by its name; one that isn't here is a dataset of two cases. */
  previews?: Record<string, PreviewView>;
  /** The folder that texts are kept in; without one the browser downloads them. */
  saved?: string;
  /** How people get into any hub; by an API key where it isn't said. */
  methods?: string[];
  /** Calls that are refused, by name. */
  refuse?: Partial<Record<keyof Host, Failure>>;
}

export const EMPTY_SNAPSHOT: AppSnapshot = {
  seq: 0,
  version: "0.1.0",
  machine: {
    name: "workbench",
    system: "Debian GNU/Linux 12 (bookworm)",
    arch: "x86_64",
    cpus: 8,
    dataFolder: "/home/ann/.local/share/everdict-runner",
    settingsFile: "/home/ann/.config/everdict-runner/settings.toml",
  },
  state: "unpaired",
  stateText: "",
  cause: null,
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
  waiting: null,
  awake: false,
  asks: [],
  hubPause: null,
  cpuShare: { percent: 100, inUse: false, means: "unlimited", text: "all CPUs may be used" },
  settingsFault: null,
  autostart: "off",
  notices: "ok",
  update: null,
  deepLink: null,
};

export function runner(id: string, label: string, hub: string, embedded: boolean): RunnerView {
  const lastAnswerAt = new Date().toISOString();
  return {
    id,
    label,
    hub,
    target: `self:${id}`,
    state: "idle",
    stateText: "",
    cause: null,
    lastAnswerAt,
    active: 0,
    slots: 2,
    embedded,
  };
}
