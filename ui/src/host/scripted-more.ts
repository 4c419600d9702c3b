import type {
  BatchDetail,
  CheckView,
  CompareView,
  ConsentView,
  DiskView,
  JobOutcome,
  PreviewView,
  RunView,
  SettingView,
} from "./generated/contract";

const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();

const setting = (
  key: string,
  kind: SettingView["kind"],
  value: SettingView["value"],
  help: string,
  more: Partial<SettingView> = {},
): SettingView => ({
  key,
  group: key.split(".")[0] ?? "",
  kind,
  value,
  default: value,
  atStart: false,
  help,
  ...more,
});

export const SAMPLE_SETTINGS: SettingView[] = [
  setting("power.on_battery", "choice", "finish", "What happens on battery.", {
    choices: ["finish", "hand-back", "ignore"],
  }),
  setting("power.keep_awake", "switch", true, "Keep the system from sleeping while a case runs on mains power."),
  setting("network.on_metered", "choice", "wait", "What happens on a metered network.", {
    choices: ["wait", "ignore"],
  }),
  setting("hours.days", "list", ["mon", "tue", "wed", "thu", "fri"], "Days on which new cases are taken.", {
    default: ["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
    choices: ["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
  }),
  setting("hours.from", "text", "09:00", "From when on those days.", { default: "00:00" }),
  setting("hours.to", "text", "18:30", "Until when.", { default: "00:00" }),
  setting("limits.while_in_use", "choice", "take", "What happens while somebody uses this machine.", {
    choices: ["take", "wait"],
  }),
  setting("limits.cpu_in_use", "number", 50, "Percent of all CPUs.", { default: 100, min: 1, max: 100, unit: "%" }),
  setting("limits.disk_floor_gb", "number", 1, "Below this no case is taken.", { min: 0, max: 100_000, unit: "GB" }),
  setting("consent.ask", "choice", "ask", "Whether the first case waits for your word.", {
    choices: ["ask", "always"],
  }),
  setting("runner.max_concurrent", "number", 2, "Cases at the same time.", {
    default: 1,
    min: 1,
    max: 64,
    atStart: true,
  }),
  setting("topology.image_budget_gb", "number", 20, "The most that images may take.", {
    min: 0,
    max: 100_000,
    unit: "GB",
  }),
  setting("topology.allow_host_volumes", "list", [], "Folders of this machine that services may mount."),
  setting("hub.data_dir", "text", "", "Folder of the hub's database.", { atStart: true }),
  setting("later.unknown_key", "text", "x", "A setting that this page has no words for."),
];

export const SAMPLE_CONSENTS: ConsentView[] = [
  { id: "c-1", hub: "https://team.example", workspace: "acme", kind: "command", answer: "always", at: ago(86_400) },
  { id: "c-2", hub: "https://team.example", workspace: "visitors", kind: "service", answer: "never", at: ago(7200) },
];

export const SAMPLE_CHECKS: CheckView[] = [
  {
    id: "disk",
    group: "machine",
    state: "ok",
    title: "Free disk",
    detail: "182 GB free, 5 GB are kept free",
    fix: null,
  },
  { id: "git", group: "machine", state: "ok", title: "git", detail: "2.39.5 at /usr/bin/git", fix: null },
  {
    id: "docker",
    group: "docker",
    state: "fail",
    title: "Container engine",
    detail: "nothing answers at unix:///var/run/docker.sock (no such file)",
    fix: "start Docker; it is found again by itself",
  },
  {
    id: "keyring",
    group: "secrets",
    state: "ok",
    title: "Keyring",
    detail: "the Secret Service keeps 2 tokens",
    fix: null,
  },
  {
    id: "hub:team.example",
    group: "hub",
    state: "warn",
    title: "team.example",
    detail: "answers in 84 ms; its certificate ends in 6 days",
    fix: "tell whoever runs the hub",
  },
  { id: "browser", group: "machine", state: "off", title: "Browser", detail: "switched off by you", fix: null },
];

export const SAMPLE_DISK: DiskView = {
  free: 182_400_000_000,
  floor: 5_000_000_000,
  categories: [
    {
      id: "scratch",
      title: "Scratch folders",
      bytes: 412_000_000,
      items: 3,
      wouldGo: ["case-17-a41f", "case-12-77b0", "case-9-0c2d"],
    },
    {
      id: "images",
      title: "Pulled images",
      bytes: 6_120_000_000,
      items: 5,
      wouldGo: ["postgres:16-alpine", "acme/api:1.4"],
    },
    { id: "checkouts", title: "Checkouts of repositories", bytes: 88_000_000, items: 2, wouldGo: [] },
  ],
};

export const SAMPLE_OWN_LOG = [
  "2026-11-29T09:12:01Z  INFO runner: session open hub=http://127.0.0.1:8787",
  "2026-11-29T09:12:02Z  INFO runner: polling slots=2",
  "2026-11-29T09:14:40Z  INFO attempt{job=j-16 epoch=1}: leased",
  "2026-11-29T09:15:54Z  INFO attempt{job=j-16 epoch=1}: result accepted outcome=passed",
  "2026-11-29T09:20:11Z  WARN topology: nothing answers at unix:///var/run/docker.sock (× 12)",
];

function rowsOf(batch: string, harness: string, outcomes: (JobOutcome | null)[], from: number): RunView[] {
  return outcomes.map((outcome, at) => ({
    id: `${batch}-${at}`,
    batch,
    caseId:
      ["fix-parser", "rename-api", "flaky-socket", "migrate-config", "sort-imports", "add-flag"][at] ?? `case-${at}`,
    harness,
    runtime: "self",
    status: outcome !== null ? "ended" : at < 5 ? "running" : "queued",
    outcome,
    score: outcome === "passed" ? 1 : outcome === "failed" ? 0.25 * (at % 3) : null,
    submittedAt: ago(from),
    startedAt: outcome === null && at >= 5 ? null : ago(from - 5 - at * 20),
    endedAt: outcome === null ? null : ago(from - 40 - at * 31),
    runner: outcome === null && at >= 5 ? null : "workbench",
  }));
}

function batchOf(id: string, label: string, rows: RunView[]): BatchDetail {
  const count = (outcome: JobOutcome) => rows.filter((row) => row.outcome === outcome).length;
  return {
    batch: {
      id,
      label,
      submittedAt: rows[0]?.submittedAt ?? ago(0),
      total: rows.length,
      done: rows.filter((row) => row.endedAt !== null).length,
      passed: count("passed"),
      failed: count("failed"),
      timedOut: count("timed-out"),
      infra: count("infra"),
      unmeasured: count("unmeasured"),
    },
    rows,
  };
}

export const SAMPLE_BATCHES: BatchDetail[] = [
  batchOf(
    "b-3",
    "parser suite, claude-code 2.1",
    rowsOf("b-3", "claude-code@2.1", ["passed", "passed", "failed", "timed-out", null, null], 260),
  ),
  batchOf(
    "b-2",
    "parser suite, codex 0.9",
    rowsOf("b-2", "codex@0.9", ["passed", "failed", "failed", "passed", "passed", "infra"], 4200),
  ),
  batchOf(
    "b-1",
    "parser suite, shell",
    rowsOf("b-1", "shell@1", ["failed", "failed", "passed", "unmeasured", "passed", "passed"], 90_000),
  ),
];

export const SAMPLE_COMPARISONS: Record<string, CompareView> = {
  "b-2 b-3": {
    fixed: ["rename-api"],
    broken: ["migrate-config"],
    changed: ["flaky-socket"],
    same: 1,
    missing: ["add-flag"],
  },
};

export const SAMPLE_PREVIEWS: Record<string, PreviewView> = {
  "broken.json": {
    kind: "dataset",
    cases: [{ id: "first-case", env: "scratch folder", graders: ["tests-pass"], harness: null }],
    problems: [
      { place: "$.cases[1].graders[0].kind", message: "unknown grader `test-pas`; did you mean `tests-pass`" },
      { place: "$.cases[2].id", message: "missing" },
    ],
  },
};
