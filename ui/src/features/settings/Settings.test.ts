import { cleanup, fireEvent, screen, within } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SAMPLE_CONSENTS, SAMPLE_SETTINGS } from "../../host/scripted-more";
import { expectAccessible, NOW, paired, show, withoutLayout } from "../../test/show";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
  withoutLayout();
});

afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const script = { snapshot: paired(), settings: SAMPLE_SETTINGS, consents: SAMPLE_CONSENTS };
const group = async (name: string) => within(await screen.findByRole("region", { name }));

describe("the settings", () => {
  it("say where things lie", async () => {
    show(script, "#/settings");
    expect(await screen.findByText("/home/ann/.local/share/everdict-runner")).toBeTruthy();
    expect(screen.getByRole("button", { name: "Copy the path of: Data folder" })).toBeTruthy();
    expect(screen.getByText("/home/ann/.config/everdict-runner/settings.toml")).toBeTruthy();
  });

  it("are grouped, what people change first, and named in words where there are any", async () => {
    const { container } = show(script, "#/settings");
    await screen.findByRole("region", { name: "Power" });
    const titles = [...container.querySelectorAll("h2")].map((one) => one.textContent);
    expect(titles.indexOf("Power")).toBeLessThan(titles.indexOf("Runners"));
    expect(titles).toContain("later");
    expect(screen.getByLabelText("On battery")).toBeTruthy();
    expect(screen.getByLabelText("unknown key")).toBeTruthy();
    expect(screen.getByText("A setting that this page has no words for.")).toBeTruthy();
  });

  it("are kept as what they are: number, switch, choice, list and text", async () => {
    const { host } = show(script, "#/settings");
    await fireEvent.change(await screen.findByLabelText("CPU while you use it"), { target: { value: " 40 " } });
    await fireEvent.click(screen.getByRole("switch", { name: "Keep awake while a case runs" }));
    await fireEvent.change(screen.getByLabelText("On a metered network"), { target: { value: "ignore" } });
    await fireEvent.click((await group("Working hours")).getByRole("checkbox", { name: "Sat" }));
    await fireEvent.change(screen.getByLabelText("Folders that services may mount"), {
      target: { value: "/srv/a\n\n /srv/b " },
    });
    await fireEvent.change(screen.getByLabelText("From"), { target: { value: "08:00" } });
    expect(host.calls).toEqual([
      ["saveSetting", "limits.cpu_in_use", 40],
      ["saveSetting", "power.keep_awake", false],
      ["saveSetting", "network.on_metered", "ignore"],
      ["saveSetting", "hours.days", ["mon", "tue", "wed", "thu", "fri", "sat"]],
      ["saveSetting", "topology.allow_host_volumes", ["/srv/a", "/srv/b"]],
      ["saveSetting", "hours.from", "08:00"],
    ]);
  });

  it("keep what was typed beside the reason why it can't be kept", async () => {
    show(script, "#/settings");
    const field = (await screen.findByLabelText("CPU while you use it")) as HTMLInputElement;
    await fireEvent.change(field, { target: { value: "900" } });
    const alert = await screen.findByRole("alert");
    expect(alert.textContent).toContain("Limits.cpu_in_use is at most 100.");
    expect(field.value).toBe("900");
    expect(field.getAttribute("aria-invalid")).toBe("true");
    expect(field.getAttribute("aria-describedby")).toContain(alert.id);
    await fireEvent.change(field, { target: { value: "90" } });
    await vi.waitFor(() => expect(screen.queryByRole("alert")).toBeNull());
  });

  it("go back to their default, and only a changed one offers that", async () => {
    const { host } = show(script, "#/settings");
    const power = await group("Power");
    expect(power.queryByRole("button", { name: /default/ })).toBeNull();
    await fireEvent.click(screen.getByRole("button", { name: "CPU while you use it: Back to the default: 100" }));
    expect(host.calls).toEqual([["saveSetting", "limits.cpu_in_use", null]]);
    await vi.waitFor(() =>
      expect((screen.getByLabelText("CPU while you use it") as HTMLInputElement).value).toBe("100"),
    );
  });

  it("start the app at login only once that is ticked, and say where it can't be", async () => {
    const { host } = show(script, "#/settings");
    const start = await screen.findByRole("switch", { name: "Start at login" });
    expect(start.getAttribute("aria-checked")).toBe("false");
    await fireEvent.click(start);
    expect(host.calls).toEqual([["setAutostart", true]]);
    await vi.waitFor(() => expect(start.getAttribute("aria-checked")).toBe("true"));
    host.change({ autostart: "unavailable" });
    expect(await screen.findByText("This system offers no way to start an app at login.")).toBeTruthy();
    expect((start as HTMLButtonElement).disabled).toBe(true);
  });

  it("list the answers that were given for good, and take one back", async () => {
    const { host } = show(script, "#/settings");
    const table = within(await screen.findByRole("table", { name: "What you allowed and refused" }));
    expect(table.getByText("Never allowed")).toBeTruthy();
    await fireEvent.click(table.getByRole("button", { name: "Ask again about Command from acme" }));
    expect(host.calls).toEqual([["revokeConsent", "c-1"]]);
    await vi.waitFor(() => expect(table.queryByText("Always allowed")).toBeNull());
  });

  it("unpair a hub after a question", async () => {
    const { host } = show(script, "#/settings");
    await fireEvent.click((await group("Hubs")).getByRole("button", { name: "Unpair" }));
    await fireEvent.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Unpair" }));
    expect(host.calls).toEqual([["unpair", "r-1"]]);
    expect(await screen.findByText("This machine is paired with no hub.")).toBeTruthy();
  });

  it("say why they can't be read, and try again", async () => {
    const failure = { code: "io", message: "settings.toml is a folder", fix: "remove it" };
    show({ ...script, refuse: { settings: failure } }, "#/settings");
    expect((await screen.findByText("Settings.toml is a folder.")).closest("[role=alert]")).toBeTruthy();
    expect(screen.getByRole("button", { name: "Try again" })).toBeTruthy();
  });

  it("have nothing that axe objects to", async () => {
    const { container } = show(script, "#/settings");
    await screen.findByRole("region", { name: "Power" });
    await screen.findByRole("table");
    await fireEvent.change(screen.getByLabelText("CPU while you use it"), { target: { value: "900" } });
    await screen.findByRole("alert");
    await expectAccessible(container);
  });
});
