import { cleanup, fireEvent, screen, within } from "@testing-library/svelte";
import { tick } from "svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  ago,
  DONE,
  EMPTY_SNAPSHOT,
  expectAccessible,
  JOB,
  NOW,
  paired,
  RUNNER,
  show,
  withoutLayout,
} from "../../test/show";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
  withoutLayout();
});

afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.unstubAllGlobals();
  localStorage.clear();
});

const card = (name: string) => screen.findByRole("region", { name });

describe("the overview", () => {
  it("says the state with the age of the last answer", async () => {
    show({ snapshot: paired() });
    await card("Now");
    expect(screen.getAllByText("Idle").length).toBeGreaterThan(0);
    expect(screen.getAllByText("12 s ago").length).toBeGreaterThan(0);
  });

  it("names the hub that can't be reached, and why", async () => {
    const runner = {
      ...RUNNER,
      embedded: false,
      hub: "https://team.example",
      state: "offline" as const,
      stateText: "name not found",
    };
    show({ snapshot: paired({ state: "offline", runners: [runner] }) });
    expect(await screen.findByText("Can't reach team.example")).toBeTruthy();
    expect(screen.getByText("Name not found.")).toBeTruthy();
  });

  it("connects a runner anew when asked", async () => {
    const { host } = show({ snapshot: paired() });
    await fireEvent.click(await screen.findByRole("button", { name: "Reconnect" }));
    expect(host.calls).toEqual([["reconnect", "r-1"]]);
  });

  it("pairs a runner of its own hub again with one press when the hub has removed it", async () => {
    const runner = { ...RUNNER, state: "attention" as const, cause: "removed", stateText: "removed by the hub" };
    const { host, container } = show({ snapshot: paired({ state: "attention", cause: "removed", runners: [runner] }) });
    expect((await screen.findAllByText("Removed by the hub")).length).toBeGreaterThan(0);
    expect(screen.queryByRole("button", { name: "Reconnect" })).toBeNull();
    await expectAccessible(container);
    await fireEvent.click(screen.getByRole("button", { name: "Pair again" }));
    expect(host.calls).toEqual([["pairAgain", "r-1"]]);
    expect(await screen.findByRole("button", { name: "Reconnect" })).toBeTruthy();
  });

  it("asks a team's hub for a new token when it has removed the runner", async () => {
    const hub = "https://team.example";
    const removed = { state: "attention" as const, cause: "revoked", stateText: "access revoked" };
    const runner = { ...RUNNER, ...removed, embedded: false, hub };
    const { host } = show({ snapshot: paired({ state: "attention", cause: "revoked", runners: [runner] }) });
    expect((await screen.findAllByText("Access revoked")).length).toBeGreaterThan(0);
    await fireEvent.click(screen.getByRole("button", { name: "Pair again" }));
    const field = (await screen.findByLabelText("Hub address")) as HTMLInputElement;
    expect(field.value).toBe(hub);
    expect(host.calls).toEqual([["unpair", "r-1"]]);
  });

  it("names another program that runs the profile", async () => {
    const stateText = "everdict-runner start (process 42) takes jobs for the runners of this profile already";
    show({ snapshot: paired({ state: "attention", cause: "already_running", stateText }) });
    expect((await screen.findAllByText("Another program runs this profile")).length).toBeGreaterThan(0);
    expect(screen.getByText(/process 42/)).toBeTruthy();
  });

  it("shows why a capability is off, the way out, and turns it", async () => {
    const { host } = show({ snapshot: paired() });
    const list = within(await card("What may run here"));
    expect(list.getByText("Docker isn't answering at /var/run/docker.sock.", { exact: false })).toBeTruthy();
    expect(list.getByText("Start Docker, then it turns on by itself.")).toBeTruthy();
    const browser = list.getByRole("switch", { name: "Allow Browser" });
    expect(browser.getAttribute("aria-checked")).toBe("false");
    await fireEvent.click(browser);
    expect(host.calls).toContainEqual(["setCapability", "browser", true]);
    await vi.waitFor(() => expect(browser.getAttribute("aria-checked")).toBe("true"));
  });

  it("shows the running job with its last line, and stops it when asked twice", async () => {
    const { host } = show({ snapshot: paired({ state: "running", active: [JOB] }), jobs: [JOB] });
    const now = within(await card("Now"));
    expect(now.getByText("2 m 10 s")).toBeTruthy();
    await vi.waitFor(() => expect(host.watchers).toBe(2));
    host.log("j-1", ["first", "\u001b[32msecond\u001b[0m"]);
    expect(await now.findByText("second")).toBeTruthy();
    await fireEvent.click(now.getByRole("button", { name: "Stop" }));
    expect(host.calls).toEqual([]);
    await fireEvent.click(screen.getByRole("button", { name: "Stop job" }));
    expect(host.calls).toEqual([["stopJob", "j-1"]]);
    expect(await screen.findByText("Nothing is running")).toBeTruthy();
  });

  it("keeps the verdict of the last job in view", async () => {
    const { host } = show({ snapshot: paired({ state: "running", active: [JOB] }), jobs: [JOB, DONE] });
    const now = within(await card("Now"));
    expect(now.getByRole("link", { name: "hello" })).toBeTruthy();
    host.setJob({ ...JOB, endedAt: ago(2), outcome: "failed" });
    expect(await now.findByText("Failed")).toBeTruthy();
    expect(now.getByText("2 s ago")).toBeTruthy();
    expect(now.queryByRole("link", { name: "hello" })).toBeNull();
  });

  it("unpairs after a question that names the hub", async () => {
    const { host } = show({ snapshot: paired() });
    await fireEvent.click(await screen.findByRole("button", { name: "Unpair" }));
    const dialog = within(await screen.findByRole("dialog", { name: "Unpair workbench?" }));
    await fireEvent.click(dialog.getByRole("button", { name: "Unpair" }));
    expect(host.calls).toEqual([["unpair", "r-1"]]);
    expect(await screen.findByRole("heading", { name: "Set up this machine" })).toBeTruthy();
  });

  it("gives the keyboard back where a question came from", async () => {
    show({ snapshot: paired() });
    const opener = await screen.findByRole("button", { name: "Unpair" });
    opener.focus();
    await fireEvent.click(opener);
    const dialog = await screen.findByRole("dialog");
    within(dialog).getByRole("button", { name: "Cancel" }).focus();
    await fireEvent.click(within(dialog).getByRole("button", { name: "Cancel" }));
    await vi.waitFor(() => expect(document.activeElement).toBe(opener));
  });

  it("pauses from the menu by keyboard, and resumes", async () => {
    const { host } = show({ snapshot: paired({ runners: [RUNNER, { ...RUNNER, id: "r-2", label: "other" }] }) });
    const opener = await screen.findByRole("button", { name: "Pause" });
    opener.focus();
    await fireEvent.keyDown(opener, { key: "ArrowDown" });
    const first = await screen.findByRole("menuitem", { name: "For 1 hour" });
    await vi.waitFor(() => expect(document.activeElement).toBe(first));
    await fireEvent.keyDown(first, { key: "End" });
    expect(document.activeElement?.textContent).toBe("Until I resume");
    await fireEvent.keyDown(first, { key: "Escape" });
    expect(document.activeElement).toBe(opener);
    await fireEvent.click(opener);
    await fireEvent.click(await screen.findByRole("menuitem", { name: "For 1 hour" }));
    await fireEvent.click(await screen.findByRole("button", { name: "Resume" }));
    expect(host.calls).toEqual([["pause", 3600], ["resume"]]);
  });

  it("shows a refusal as a sentence with the next step", async () => {
    const failure = { code: "IO", message: "the settings can't be written", fix: "free some disk space" };
    show({ snapshot: paired(), refuse: { setCapability: failure } });
    await fireEvent.click(await screen.findByRole("switch", { name: "Allow Git" }));
    const alert = await screen.findByRole("alert");
    expect(alert.textContent).toContain("The settings can't be written.");
    expect(alert.textContent).toContain("Next: Free some disk space.");
  });

  it("says that the engine can't be reached, and reads again on request", async () => {
    const script: Parameters<typeof show>[0] = {
      snapshot: paired(),
      refuse: { snapshot: { code: "GONE", message: "no answer", fix: null } },
    };
    show(script);
    expect((await screen.findByRole("alert")).textContent).toContain("No answer.");
    expect(screen.getByText("Unknown")).toBeTruthy();
    delete script.refuse;
    await fireEvent.click(screen.getByRole("button", { name: "Try again" }));
    expect(await card("Now")).toBeTruthy();
    expect(screen.queryByRole("alert")).toBeNull();
  });

  it("asks for everything anew when an event was missed", async () => {
    const { host } = show({ snapshot: paired() });
    await card("Now");
    const asked = vi.spyOn(host, "snapshot");
    host.change({ state: "idle" });
    await tick();
    expect(asked).not.toHaveBeenCalled();
    host.change({ state: "idle" }, 3);
    await vi.waitFor(() => expect(asked).toHaveBeenCalledTimes(1));
  });

  it("leaves the text of a control alone when nothing about it changed", async () => {
    const { host } = show({ snapshot: paired() });
    const button = await screen.findByRole("button", { name: "Unpair" });
    const text = [...button.childNodes];
    host.change({
      lastAnswerAt: ago(1),
      runners: [{ ...RUNNER, lastAnswerAt: ago(1) }],
      capabilities: [...EMPTY_SNAPSHOT.capabilities],
    });
    await vi.waitFor(() => expect(screen.getAllByText("1 s ago").length).toBeGreaterThan(0));
    expect(screen.getByRole("button", { name: "Unpair" })).toBe(button);
    expect([...button.childNodes].every((node, at) => node === text[at])).toBe(true);
  });

  it("says what holds tokens or the tray back, and only then", async () => {
    show({ snapshot: paired({ trayHost: false, keyring: "locked" }) });
    expect(await screen.findByText("No tray icon on this desktop")).toBeTruthy();
    expect(screen.getByText("The keyring is locked")).toBeTruthy();
    cleanup();
    show({ snapshot: paired() });
    await card("Now");
    expect(screen.queryByText("No tray icon on this desktop")).toBeNull();
    expect(screen.queryByText("The keyring is locked")).toBeNull();
  });

  it("runs no markup that a hub put into a label", async () => {
    const label = "<img src=x onerror=alert(1)>";
    const { container } = show({ snapshot: paired({ runners: [{ ...RUNNER, label }] }) });
    expect(await screen.findByText(label)).toBeTruthy();
    expect(container.querySelector("img[src='x']")).toBeNull();
  });

  it("ends its subscriptions with the page", async () => {
    const { host, unmount } = show({ snapshot: paired({ active: [JOB] }), jobs: [JOB] });
    await vi.waitFor(() => expect(host.watchers).toBe(2));
    unmount();
    expect(host.watchers).toBe(0);
  });

  it("says why no job is taken, and since when", async () => {
    const waiting = { reason: "battery" as const, text: "on battery", since: ago(190) };
    const { host } = show({ snapshot: paired({ state: "waiting", waiting }) });
    await card("Now");
    expect(screen.getAllByText("Waiting: on battery").length).toBeGreaterThan(1);
    expect(screen.getByText(/No new jobs since/)).toBeTruthy();
    host.change({ state: "paused", waiting: null, hubPause: "maintenance until 18:00" });
    expect((await screen.findAllByText("Paused by the hub: maintenance until 18:00")).length).toBeGreaterThan(0);
    expect(screen.getByText(/^Maintenance until 18:00\. Jobs that run now go on/)).toBeTruthy();
  });

  it("says what the machine may use, and that it is kept awake", async () => {
    const cpuShare = { percent: 50, inUse: true, means: "quota" as const, text: "half while in use" };
    show({ snapshot: paired({ awake: true, autostart: "on", cpuShare }) });
    const use = await card("What this machine may use");
    expect(use.textContent).toMatch(/CPU\s*Up to 50 %\s*while you use it/);
    expect(use.textContent).toContain("Kept awake while a job runs");
    expect(use.textContent).toMatch(/Start at login\s*On/);
  });

  it("asks before the first job of a workspace, and takes the answer", async () => {
    const ask = {
      id: "a-1",
      hub: "https://team.example",
      workspace: "acme",
      harness: "claude-code@2.1",
      kind: "process" as const,
      caseId: "fix-login",
      expiresAt: new Date(NOW + 25_000).toISOString(),
    };
    const { host, container } = show({ snapshot: paired({ state: "attention", asks: [ask, { ...ask, id: "a-2" }] }) });
    const first = (
      await screen.findAllByRole("article", { name: "Approve the first job from “acme”?" })
    )[0] as HTMLElement;
    for (const part of ["team.example", "claude-code@2.1", "fix-login", "Agent", "in 25 s"]) {
      expect(first.textContent).toContain(part);
    }
    expect(screen.getByRole("link", { name: /Overview.*Needs you: 2/s })).toBeTruthy();
    await expectAccessible(container);
    await fireEvent.click(within(first).getByRole("button", { name: "Always allow" }));
    expect(host.calls).toEqual([["answerAsk", "a-1", "always"]]);
    await vi.waitFor(() => expect(screen.getAllByText(/Approve the first job/)).toHaveLength(1));
    await fireEvent.click(screen.getByRole("button", { name: "Never allow" }));
    expect(host.calls.at(-1)).toEqual(["answerAsk", "a-2", "never"]);
  });

  it("tells of an update, of denied notifications and of a mistake in the settings", async () => {
    const { container } = show({
      snapshot: paired({
        update: { state: "rolled-back", version: "0.2.0", text: "0.1.0 runs again" },
        notices: "denied",
        settingsFault: { code: "input", message: "line 3 is no table", fix: "correct that line" },
      }),
    });
    expect(await screen.findByText("Version 0.2.0 didn't start and was taken back")).toBeTruthy();
    expect(screen.getByText("Notifications are off for this app")).toBeTruthy();
    expect(screen.getByText("Line 3 is no table.")).toBeTruthy();
    expect(screen.getByRole("link", { name: /Diagnostics.*Something to look at/s })).toBeTruthy();
    await expectAccessible(container);
  });

  it("confirms an opened pairing link before anything is stored", async () => {
    const deepLink = { hub: "https://team.example", label: "laptop", text: "", problem: null };
    const { host, container } = show({ snapshot: paired({ deepLink }) });
    expect(await screen.findByText("Pair with team.example?")).toBeTruthy();
    expect(host.calls).toEqual([]);
    await expectAccessible(container);
    await fireEvent.input(screen.getByLabelText("Name of this runner"), { target: { value: "my laptop" } });
    await fireEvent.click(screen.getByRole("button", { name: "Pair" }));
    expect(host.calls).toEqual([["acceptLink", "my laptop"]]);
    expect(await screen.findByRole("region", { name: "This machine is paired" })).toBeTruthy();
  });

  it("shows why a link can't be used, with nothing left but to dismiss it", async () => {
    const problem = { code: "input", message: "the token is damaged", fix: "ask for a new link" };
    const { host } = show({ snapshot: paired({ deepLink: { hub: "", label: "", text: "", problem } }) });
    expect((await screen.findByText("The token is damaged.")).closest("[role=alert]")).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Pair" })).toBeNull();
    await fireEvent.click(screen.getByRole("button", { name: "Dismiss" }));
    expect(host.calls).toEqual([["dismissLink"]]);
    expect(await screen.findByRole("region", { name: "Now" })).toBeTruthy();
  });

  it("pauses after the job that runs", async () => {
    const { host } = show({ snapshot: paired({ runners: [RUNNER, { ...RUNNER, id: "r-2", label: "other" }] }) });
    await fireEvent.click(await screen.findByRole("button", { name: "Pause" }));
    await fireEvent.click(await screen.findByRole("menuitem", { name: "Finish the current job first" }));
    expect(host.calls).toEqual([["finishThenPause"]]);
  });

  it("has nothing that axe objects to", async () => {
    const { container } = show({
      snapshot: paired({ state: "running", active: [JOB], keyring: "denied" }),
      jobs: [JOB, DONE],
    });
    await card("Now");
    await expectAccessible(container);
  });
});
