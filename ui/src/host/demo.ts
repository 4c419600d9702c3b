import type { Translate } from "../i18n";
import { pseudoTranslator } from "../i18n/pseudo";
import type { AppSnapshot, AskView, FrameView } from "./generated/contract";
import type { Host } from "./host";
import { EMPTY_SNAPSHOT, runner, ScriptedHost } from "./scripted";
import { SAMPLE_DETAIL, SAMPLE_JOBS, sampleLog } from "./scripted-data";
import {
  SAMPLE_BATCHES,
  SAMPLE_CHECKS,
  SAMPLE_COMPARISONS,
  SAMPLE_CONSENTS,
  SAMPLE_DISK,
  SAMPLE_OWN_LOG,
  SAMPLE_PREVIEWS,
  SAMPLE_SETTINGS,
} from "./scripted-more";

const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();

const ASK: AskView = {
  id: "ask-1",
  hub: "https://team.example",
  workspace: "acme",
  harness: "claude-code@2.1",
  kind: "process",
  caseId: "fix-the-login-page",
  expiresAt: new Date(Date.now() + 25_000).toISOString(),
};

/** What a query such as `?ask&waiting` adds to the day of the demo. */
function asked(query: URLSearchParams): Partial<AppSnapshot> {
  const more: Partial<AppSnapshot> = {};
  if (query.has("ask")) more.asks = [ASK];
  if (query.has("waiting")) {
    more.state = "waiting";
    more.waiting = { reason: "battery", text: "on battery", since: ago(190) };
    more.active = [];
  }
  if (query.has("hubpause")) more.hubPause = "maintenance until 18:00";
  if (query.has("link")) {
    more.deepLink = { hub: "https://team.example", label: "workbench", text: "pair with team.example", problem: null };
  }
  if (query.has("update")) {
    more.update = { state: "waiting", version: "0.2.0", text: "0.2.0 is installed once no job runs" };
  }
  if (query.has("denied")) more.notices = "denied";
  return more;
}

/** A picture of a page, drawn here so that the demo needs no file. */
async function picture(seq: number): Promise<FrameView> {
  const canvas = new OffscreenCanvas(960, 600);
  const pen = canvas.getContext("2d");
  if (pen !== null) {
    pen.fillStyle = "#ffffff";
    pen.fillRect(0, 0, 960, 600);
    pen.fillStyle = "#e6e8fa";
    pen.fillRect(0, 0, 960, 56);
    pen.fillStyle = "#1b1e27";
    pen.font = "24px sans-serif";
    pen.fillText("Sign in to Acme", 360, 180);
    pen.strokeStyle = "#7b8191";
    pen.strokeRect(330, 220, 300, 44);
    pen.strokeRect(330, 280, 300, 44);
    pen.fillStyle = "#4a55bd";
    pen.fillRect(330, 350, 300, 44);
    pen.fillStyle = "#ffffff";
    pen.fillText(`Step ${seq}`, 440, 380);
  }
  const bytes = new Uint8Array(await (await canvas.convertToBlob({ type: "image/png" })).arrayBuffer());
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return { seq, at: ago(60 - seq), url: "https://acme.example/login", mime: "image/png", data: btoa(binary) };
}

/** The host of `vite dev`: a day of work on a paired machine, or a fresh one with `?fresh`. */
const REMOVED = {
  state: "attention" as const,
  cause: "removed",
  stateText: "removed by the hub; pair again, or unpair it here",
};

export async function demoHost(search: string): Promise<Host> {
  const query = new URLSearchParams(search);
  if (query.has("fresh")) return expose(new ScriptedHost());
  const jobs = SAMPLE_JOBS;
  const active = jobs.filter((job) => job.endedAt === null);
  const answered = ago(3);
  const offline = {
    state: "offline" as const,
    stateText: "name not found",
    lastAnswerAt: ago(260),
  };
  const frames = await Promise.all([1, 2, 3, 4, 5, 6].map(picture));
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
          ...(query.has("offline") ? offline : {}),
          ...(query.has("removed") ? REMOVED : {}),
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
      awake: true,
      cpuShare: { percent: 50, inUse: true, means: "quota", text: "half of the CPUs while somebody uses the machine" },
      today: { passed: 14, failed: 2, timedOut: 1, infra: 1, unmeasured: 0, seconds: 372 },
      ...asked(query),
    },
    jobs,
    details: SAMPLE_DETAIL,
    logs: query.has("empty")
      ? {}
      : Object.fromEntries(jobs.map((job) => [job.id, sampleLog(job, query.has("long") ? 100_000 : 140)])),
    frames: Object.fromEntries(jobs.map((job) => [job.id, frames])),
    settings: SAMPLE_SETTINGS,
    consents: SAMPLE_CONSENTS,
    checks: SAMPLE_CHECKS,
    disk: SAMPLE_DISK,
    cleaned: {
      images: {
        removed: ["acme/api:1.4"],
        kept: [{ name: "postgres:16-alpine", why: "a job uses it" }],
        freed: 810_000_000,
      },
    },
    ownLog: SAMPLE_OWN_LOG,
    batches: SAMPLE_BATCHES,
    comparisons: SAMPLE_COMPARISONS,
    previews: SAMPLE_PREVIEWS,
    ...(query.has("saved") ? { saved: "/home/ann/Downloads" } : {}),
  });
  if (active[0] !== undefined && !query.has("still")) {
    const id = active[0].id;
    let step = 0;
    setInterval(() => host.log(id, [`step ${++step}: reading src/parser.rs`]), 900);
  }
  return expose(host);
}

/** Browser tests play the engine through this name; a released page has no scripted host at all. */
function expose(host: ScriptedHost): Host {
  (globalThis as { scriptedHost?: ScriptedHost }).scriptedHost = host;
  return host;
}

/** Words of a language with longer ones with `?pseudo`, from right to left with `?pseudo=rtl`. */
export function demoSpeech(search: string): { translate?: Translate } {
  const pseudo = new URLSearchParams(search).get("pseudo");
  if (pseudo === null) return {};
  if (pseudo === "rtl") document.documentElement.dir = "rtl";
  return { translate: pseudoTranslator() };
}
