import { afterEach, expect, it, vi } from "vitest";
import { ScriptedHost } from "../host/scripted";
import { paired } from "../test/show";
import { Live } from "./live.svelte";

afterEach(() => vi.restoreAllMocks());

it("listens to nothing while the page is hidden, and is right again when it is shown", async () => {
  const hidden = vi.spyOn(document, "hidden", "get").mockReturnValue(false);
  const host = new ScriptedHost({ snapshot: paired() });
  const live = new Live(host);
  const stop = live.start();
  await vi.waitFor(() => expect(live.snapshot?.state).toBe("idle"));
  hidden.mockReturnValue(true);
  document.dispatchEvent(new Event("visibilitychange"));
  expect(host.watchers).toBe(0);
  host.change({ state: "paused" });
  host.change({ pausedUntil: "resume" });
  expect(live.snapshot?.state).toBe("idle");
  hidden.mockReturnValue(false);
  document.dispatchEvent(new Event("visibilitychange"));
  await vi.waitFor(() => expect(live.snapshot?.pausedUntil).toBe("resume"));
  expect(host.watchers).toBe(1);
  stop();
  expect(host.watchers).toBe(0);
});

it("says that the connection broke, and takes an engine that counts from the start again", async () => {
  const host = new ScriptedHost({ snapshot: paired({ seq: 900 }) });
  const live = new Live(host);
  const stop = live.start();
  await vi.waitFor(() => expect(live.snapshot?.seq).toBe(900));
  host.line({ code: "AWAY", message: "nothing answers", fix: null });
  expect(live.failure?.code).toBe("AWAY");
  const restarted = new ScriptedHost({ snapshot: paired({ seq: 2, state: "paused" }) });
  vi.spyOn(host, "snapshot").mockImplementation(() => restarted.snapshot());
  host.line(null);
  await vi.waitFor(() => expect(live.snapshot?.seq).toBe(2));
  expect(live.failure).toBeNull();
  stop();
});
