import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { AppEvent, Failure } from "./generated/contract";
import { holdWhileSeen } from "./host";
import { httpHost } from "./http";
import { CALLS, hostOver, STREAMS } from "./methods";
import { ScriptedHost } from "./scripted";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

describe("the table of calls", () => {
  it("sends each call by its name with each argument in its place", async () => {
    const sent: unknown[] = [];
    const host = hostOver({
      call: async (...call) => sent.push(call),
      subscribe: async (...call) => {
        sent.push(call);
        return () => {};
      },
    });
    await host.submitFile("a.json", "{}", "shell@1", null, "first");
    await host.pause(null);
    await host.watchLog(() => {}, "j-1");
    expect(sent).toEqual([
      ["submit_file", { name: "a.json", text: "{}", harness: "shell@1", runtime: null, label: "first" }],
      ["pause", { forSeconds: null }],
      [{ command: "watch_log", channel: "onLines" }, { jobId: "j-1" }, expect.any(Function)],
    ]);
  });

  it("names every call and stream of the scripted host, each once", () => {
    const names = [...Object.keys(CALLS), ...Object.keys(STREAMS)];
    const host = new ScriptedHost() as unknown as Record<string, unknown>;
    for (const name of names) expect(typeof host[name], name).toBe("function");
    const commands = [...Object.values(CALLS), ...Object.values(STREAMS)].map((one) => one.command);
    expect(new Set(commands).size).toBe(commands.length);
    for (const command of commands) expect(command).toMatch(/^[a-z]+(_[a-z]+)*$/);
  });
});

class FakeSource extends EventTarget {
  static readonly CLOSED = 2;
  static all: FakeSource[] = [];
  readyState = 0;
  closed = false;
  constructor(readonly url: string) {
    super();
    FakeSource.all.push(this);
  }
  close() {
    this.closed = true;
  }
  say(data: unknown) {
    this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(data) }));
  }
}

describe("the host of a browser", () => {
  const answers: Record<string, () => Response> = {};
  const asked: [string, unknown][] = [];

  beforeEach(() => {
    asked.length = 0;
    FakeSource.all = [];
    for (const key of Object.keys(answers)) delete answers[key];
    vi.stubGlobal("EventSource", FakeSource);
    vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
      asked.push([url, init.body === undefined ? null : JSON.parse(String(init.body))]);
      const answer = answers[url];
      if (answer === undefined) throw new TypeError("connection refused");
      return answer();
    });
  });

  const place = (hash: string) => ({ hash, pathname: "/", search: "" }) as Location;
  const history = () => ({ replaceState: vi.fn() });

  it("turns the ticket of its link into a session and leaves no copy in the address", async () => {
    answers["api/session"] = () => new Response("null");
    const past = history();
    await httpHost(place("#ticket=abc-123"), past as unknown as History);
    expect(asked).toEqual([["api/session", { ticket: "abc-123" }]]);
    expect(past.replaceState).toHaveBeenCalledWith(null, "", "/");
  });

  it("takes no ticket from any other address", async () => {
    const past = history();
    await httpHost(place("#/jobs/ticket=abc"), past as unknown as History);
    await httpHost(place("#ticket=<script>"), past as unknown as History);
    expect(asked).toEqual([]);
    expect(past.replaceState).not.toHaveBeenCalled();
  });

  it("gives answers and failures as the engine does", async () => {
    const host = await httpHost(place(""), history() as unknown as History);
    answers["api/jobs"] = () => Response.json([]);
    expect(await host.jobs(20)).toEqual([]);
    expect(asked.at(-1)).toEqual(["api/jobs", { limit: 20 }]);
    answers["api/unpair"] = () =>
      Response.json({ code: "input", message: "no such runner", fix: null }, { status: 400 });
    await expect(host.unpair("r-9")).rejects.toEqual({ code: "input", message: "no such runner", fix: null });
    answers["api/resume"] = () => new Response(null, { status: 204 });
    expect(await host.resume()).toBeNull();
  });

  it.each([
    ["a page of HTML", () => new Response("<html>Sign in to the hotel</html>"), "FOREIGN"],
    ["an error of a proxy", () => new Response("bad gateway", { status: 502 }), "FOREIGN"],
    ["an error in JSON without a code", () => Response.json({ detail: "x" }, { status: 500 }), "FOREIGN"],
    ["no session", () => new Response("{}", { status: 401 }), "SESSION"],
  ])("says what to do about %s", async (_, answer, code) => {
    const host = await httpHost(place(""), history() as unknown as History);
    answers["api/snapshot"] = answer;
    const failure = await host.snapshot().catch((thrown) => thrown as Failure);
    expect(failure).toMatchObject({ code, fix: expect.stringContaining("everdict-runner ui") });
  });

  it("says that nothing answers", async () => {
    const host = await httpHost(place(""), history() as unknown as History);
    await expect(host.snapshot()).rejects.toMatchObject({ code: "AWAY" });
  });

  it("streams events, and tells when the connection broke and when it is back", async () => {
    const host = await httpHost(place(""), history() as unknown as History);
    const events: AppEvent[] = [];
    const lines: (string | null)[] = [];
    const opening = host.watch(
      (event) => events.push(event),
      (failure) => lines.push(failure?.code ?? null),
    );
    const source = FakeSource.all[0] as FakeSource;
    expect(source.url).toBe("api/watch");
    source.dispatchEvent(new Event("open"));
    const stop = await opening;
    source.say({ kind: "job", seq: 1, job: { id: "j-1" } });
    expect(events).toHaveLength(1);
    source.dispatchEvent(new Event("error"));
    source.dispatchEvent(new Event("open"));
    source.readyState = FakeSource.CLOSED;
    source.dispatchEvent(new Event("error"));
    expect(lines).toEqual(["AWAY", null, "SESSION"]);
    stop();
    expect(source.closed).toBe(true);
  });

  it.each([
    ["no session", () => new Response("{}", { status: 401 }), "SESSION"],
    [
      "a log that is gone",
      () => Response.json({ code: "not_found", message: "no log", fix: null }, { status: 422 }),
      "not_found",
    ],
    ["a page of HTML", () => new Response("<html>"), "FOREIGN"],
  ])("gives the reason why a stream never opened: %s", async (_, answer, code) => {
    const host = await httpHost(place(""), history() as unknown as History);
    answers["api/watch_log?jobId=a+b"] = answer;
    const opening = host.watchLog(() => {}, "a b");
    const source = FakeSource.all[0] as FakeSource;
    expect(source.url).toBe("api/watch_log?jobId=a+b");
    source.readyState = FakeSource.CLOSED;
    source.dispatchEvent(new Event("error"));
    await expect(opening).rejects.toMatchObject({ code });
  });
});

describe("a hidden page", () => {
  it("hears nothing, and asks anew when it is shown", async () => {
    const hidden = vi.spyOn(document, "hidden", "get").mockReturnValue(false);
    const host = new ScriptedHost();
    const end = holdWhileSeen(
      () => host.watchLog(() => {}, "j-1"),
      () => {},
    );
    await vi.waitFor(() => expect(host.watchers).toBe(1));
    hidden.mockReturnValue(true);
    document.dispatchEvent(new Event("visibilitychange"));
    expect(host.watchers).toBe(0);
    hidden.mockReturnValue(false);
    document.dispatchEvent(new Event("visibilitychange"));
    await vi.waitFor(() => expect(host.watchers).toBe(1));
    end();
    expect(host.watchers).toBe(0);
  });
});
