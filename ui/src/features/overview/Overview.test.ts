import { cleanup, fireEvent, render, screen, within } from "@testing-library/svelte";
import { tick } from "svelte";
import { afterEach, describe, expect, it, vi } from "vitest";
import App from "../../App.svelte";
import type { Host, Overview } from "../../host/host";
import sample from "../../host/overview.sample.json";
import { type Locale, translator } from "../../i18n";

// The desktop app's own tests produce exactly this sample, so the two sides can't drift apart unseen.
const paired = sample as Overview;
const unpaired: Overview = { ...paired, runners: { state: "unpaired" } };

/** A host that gives these answers one after the other; an Error is a refusal, and the last answer stays. */
function scripted(...answers: (Overview | Error)[]): Host {
  let calls = 0;
  return {
    async overview() {
      const answer = answers[Math.min(calls++, answers.length - 1)];
      if (answer === undefined || answer instanceof Error) throw answer;
      return answer;
    },
  };
}

function show(host: Host, locale: Locale = "en") {
  return render(App, { props: { host, translate: translator(locale) } });
}

function clipboard(writeText: (text: string) => Promise<void>) {
  const spy = vi.fn(writeText);
  vi.spyOn(navigator, "clipboard", "get").mockReturnValue({ writeText: spy } as unknown as Clipboard);
  return spy;
}

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

describe("the overview", () => {
  it("shows what the host says about this machine", async () => {
    show(scripted(unpaired));
    const machine = within(await screen.findByRole("region", { name: "This machine" }));
    for (const fact of ["workbench", "Debian GNU/Linux 12 (bookworm)", "x86_64", "8", "0.1.0"]) {
      expect(machine.getByText(fact)).toBeTruthy();
    }
  });

  it("tells an unpaired machine how to pair", async () => {
    show(scripted(unpaired));
    const runners = within(await screen.findByRole("region", { name: "Runners" }));
    expect(runners.getByText("No runner is paired on this machine")).toBeTruthy();
    expect(runners.getByText("everdict-runner pair --hub <address> --api-key-stdin")).toBeTruthy();
    expect(screen.getByText("Not paired")).toBeTruthy();
  });

  it("lists the pairings and claims nothing about whether they work", async () => {
    show(scripted(paired));
    const list = within(await screen.findByRole("list", { name: "Runners paired on this machine" }));
    expect(list.getByText("http://127.0.0.1:8787")).toBeTruthy();
    expect(list.getByText("self:r-1")).toBeTruthy();
    expect(screen.getByText("Paired: 1")).toBeTruthy();
    expect(screen.getByText(/can't tell whether one is working now/)).toBeTruthy();
  });

  it("tells pairings that can't be read from none at all", async () => {
    const reason = "runners.json:3: expected a value";
    const nextStep = "move the file away and pair again";
    show(scripted({ ...paired, runners: { state: "unreadable", reason, nextStep } }));
    const alert = await screen.findByRole("alert");
    expect(alert.textContent).toContain(reason);
    expect(alert.textContent).toContain(nextStep);
    expect(screen.getByText("Unknown")).toBeTruthy();
    expect(screen.queryByText("No runner is paired on this machine")).toBeNull();
  });

  it("says when this desktop shows no tray icon, and only then", async () => {
    show(scripted({ ...unpaired, trayHost: false }));
    expect(await screen.findByText("No tray icon on this desktop")).toBeTruthy();
    cleanup();
    show(scripted(unpaired));
    await screen.findByRole("region", { name: "Runners" });
    expect(screen.queryByText("No tray icon on this desktop")).toBeNull();
  });

  it("shows why it couldn't be read and reads again on request", async () => {
    show(scripted(new Error("the engine is gone"), unpaired));
    expect((await screen.findByRole("alert")).textContent).toContain("the engine is gone");
    await fireEvent.click(screen.getByRole("button", { name: "Try again" }));
    expect(await screen.findByText("workbench")).toBeTruthy();
    expect(screen.queryByRole("alert")).toBeNull();
  });

  it("reads again when the person comes back to the window", async () => {
    show(scripted(unpaired, paired));
    await screen.findByText("Not paired");
    await fireEvent.focus(window);
    expect(await screen.findByText("Paired: 1")).toBeTruthy();
  });

  it("keeps the latest answer when an earlier one arrives after it", async () => {
    const answers: ((overview: Overview) => void)[] = [];
    show({ overview: () => new Promise((resolve) => answers.push(resolve)) });
    await vi.waitFor(() => expect(answers).toHaveLength(1));
    await fireEvent.focus(window);
    answers[1]?.(paired);
    expect(await screen.findByText("Paired: 1")).toBeTruthy();
    answers[0]?.(unpaired);
    await Promise.resolve();
    await tick();
    expect(screen.getByText("Paired: 1")).toBeTruthy();
  });

  it("runs no markup that a hub put into a label", async () => {
    const label = "<img src=x onerror=alert(1)>";
    const registrations = [{ label, hub: "http://127.0.0.1:1", runtime: "self:x" }];
    const { container } = show(scripted({ ...paired, runners: { state: "paired", registrations } }));
    expect(await screen.findByText(label)).toBeTruthy();
    expect(container.querySelector("img[src='x']")).toBeNull();
  });

  it("speaks Korean", async () => {
    show(scripted(unpaired), "ko");
    expect(await screen.findByText("이 컴퓨터에 연결된 러너가 없습니다")).toBeTruthy();
    expect(screen.getByText("연결되지 않음")).toBeTruthy();
  });
});

describe("a command", () => {
  const button = () => screen.findByRole("button", { name: "Copy command: everdict-runner start" });

  it("is copied with one press, and says so", async () => {
    const writeText = clipboard(async () => {});
    show(scripted(unpaired));
    const copy = await button();
    await fireEvent.click(copy);
    expect(writeText).toHaveBeenCalledWith("everdict-runner start");
    await vi.waitFor(() => expect(copy.textContent).toContain("Copied"));
  });

  it("is selected where the clipboard is refused", async () => {
    clipboard(async () => {
      throw new Error("not allowed");
    });
    show(scripted(unpaired));
    await fireEvent.click(await button());
    expect(await screen.findByText("Selected: copy it with the keyboard")).toBeTruthy();
    expect(window.getSelection()?.toString()).toBe("everdict-runner start");
  });
});
