import { cleanup, fireEvent, screen, within } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SAMPLE_CHECKS, SAMPLE_DISK, SAMPLE_OWN_LOG } from "../../host/scripted-more";
import { expectAccessible, paired, show, withoutLayout } from "../../test/show";

beforeEach(withoutLayout);

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

const cleaned = {
  images: {
    removed: ["acme/api:1.4"],
    kept: [{ name: "postgres:16-alpine", why: "a job uses it" }],
    freed: 810_000_000,
  },
};
const script = { snapshot: paired(), checks: SAMPLE_CHECKS, disk: SAMPLE_DISK, ownLog: SAMPLE_OWN_LOG, cleaned };
const part = async (name: string) => within(await screen.findByRole("region", { name }));

describe("diagnostics", () => {
  it("list what was checked with the way out, worst in words", async () => {
    show(script, "#/diagnostics");
    const checks = await part("Checks");
    expect(await checks.findByText("1 in the way, 1 to look at, 3 fine")).toBeTruthy();
    const docker = checks.getByText("Container engine").closest("li") as HTMLElement;
    expect(docker.textContent).toContain("In the way");
    expect(docker.textContent).toContain("Next: Start Docker; it is found again by itself.");
    expect(within(checks.getByRole("list", { name: "Hubs" })).getByText("team.example")).toBeTruthy();
  });

  it("check again when asked", async () => {
    const { host } = show(script, "#/diagnostics");
    const asked = vi.spyOn(host, "doctor").mockResolvedValue([]);
    await fireEvent.click((await part("Checks")).getByRole("button", { name: "Check again" }));
    expect(asked).toHaveBeenCalled();
    expect(await screen.findByText("0 in the way, 0 to look at, 0 fine")).toBeTruthy();
  });

  it("remove only what was named before, and tell what stayed and why", async () => {
    const { host } = show(script, "#/diagnostics");
    const disk = await part("Disk");
    expect(await disk.findByText(/182 GB free/)).toBeTruthy();
    expect((disk.getByRole("button", { name: "Clean: Checkouts of repositories" }) as HTMLButtonElement).disabled).toBe(
      true,
    );
    await fireEvent.click(disk.getByRole("button", { name: "Clean: Pulled images" }));
    const dialog = within(await screen.findByRole("dialog", { name: "Remove these from “Pulled images”?" }));
    expect(dialog.getByText("postgres:16-alpine")).toBeTruthy();
    expect(host.calls).toEqual([]);
    await fireEvent.click(dialog.getByRole("button", { name: "Clean" }));
    expect(host.calls).toEqual([["clean", "images"]]);
    expect(await disk.findByText("810 MB freed, removed: 1")).toBeTruthy();
    expect(disk.getByText("Postgres:16-alpine stays: a job uses it.")).toBeTruthy();
  });

  it("show the end of the app's own log, and copy a report", async () => {
    const writeText = vi.fn(async () => {});
    const write = vi.fn(async (_: unknown[]) => {});
    vi.stubGlobal(
      "ClipboardItem",
      class {
        constructor(readonly parts: Record<string, Promise<string>>) {}
      },
    );
    vi.spyOn(navigator, "clipboard", "get").mockReturnValue({ writeText, write } as unknown as Clipboard);
    show(script, "#/diagnostics");
    const log = await part("The app's own log");
    expect(await log.findByText(/session open hub=/)).toBeTruthy();
    await fireEvent.click(log.getByRole("button", { name: "Copy these lines" }));
    expect(writeText).toHaveBeenCalledWith(SAMPLE_OWN_LOG.join("\n"));
    await fireEvent.click(screen.getByRole("button", { name: "Copy a report" }));
    await vi.waitFor(() => expect(write).toHaveBeenCalled());
    const item = write.mock.calls[0]?.[0][0] as { parts: Record<string, Promise<string>> };
    expect(await item.parts["text/plain"]).toContain("Everdict Runner 0.1.0");
    expect(await screen.findAllByText("Copied")).toBeTruthy();
  });

  it("say what can't be told, each beside its place", async () => {
    const failure = { code: "io", message: "the disk can't be read", fix: null };
    show({ ...script, refuse: { disk: failure } }, "#/diagnostics");
    expect(await screen.findByText("Couldn't measure the disk")).toBeTruthy();
    expect((await part("Checks")).getByText("Container engine")).toBeTruthy();
  });

  it("have nothing that axe objects to", async () => {
    const { container } = show(script, "#/diagnostics");
    await screen.findByText("Container engine");
    await (await part("Disk")).findByText(/182 GB free/);
    await expectAccessible(container);
  });
});
