import { cleanup, fireEvent, screen, within } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { expectAccessible, NOW, RUNNER, show, withoutLayout } from "../../test/show";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
  withoutLayout();
});

afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function paste(text: string) {
  await fireEvent.click(await screen.findByRole("button", { name: "Paste it" }));
  await fireEvent.input(screen.getByLabelText("Link, token or command"), { target: { value: text } });
  await fireEvent.click(screen.getByRole("button", { name: "Check it" }));
}

describe("the first window", () => {
  it("pairs with the hub inside by one click, and ends at a sample case", async () => {
    const { host } = show();
    await fireEvent.click(await screen.findByRole("button", { name: "Use this computer" }));
    expect(await screen.findByRole("heading", { name: "This machine is paired" })).toBeTruthy();
    expect(document.activeElement?.contains(screen.getByRole("list", { name: "Steps of pairing" }))).toBe(true);
    expect(document.activeElement).not.toBe(document.body);
    const steps = within(screen.getByRole("list", { name: "Steps of pairing" })).getAllByRole("listitem");
    expect(steps.map((step) => step.textContent?.includes("done"))).toEqual([true, true, true]);
    await fireEvent.click(screen.getByRole("button", { name: "Run a sample case" }));
    expect(host.calls).toEqual([["pairThisComputer", "workbench"], ["submitSample"]]);
  });

  it("shows what is still missing while the runner has no answer", async () => {
    const { host } = show();
    await screen.findByRole("button", { name: "Use this computer" });
    vi.spyOn(host, "pairThisComputer").mockImplementation(async () =>
      host.change({ state: "starting", runners: [{ ...RUNNER, state: "starting", lastAnswerAt: null }] }),
    );
    await fireEvent.click(screen.getByRole("button", { name: "Use this computer" }));
    const list = await screen.findByRole("list", { name: "Steps of pairing" });
    await vi.waitFor(() => {
      const steps = within(list).getAllByRole("listitem");
      expect(steps.map((step) => step.textContent?.includes("done"))).toEqual([true, false, false]);
    });
    expect(screen.getByRole("button", { name: "Run a sample case" }).hasAttribute("disabled")).toBe(true);
  });

  it("brings the cards back when pairing was refused", async () => {
    show({
      refuse: {
        pairThisComputer: { code: "port_in_use", message: "the port is taken", fix: "close the other program" },
      },
    });
    await fireEvent.click(await screen.findByRole("button", { name: "Use this computer" }));
    expect((await screen.findByRole("alert")).textContent).toContain("The port is taken.");
    expect(screen.getByRole("button", { name: "Use this computer" })).toBeTruthy();
  });

  it("keeps the token in a file only after a question, where the keyring can't take it", async () => {
    const { host } = show({ snapshot: { keyring: "unavailable" } });
    await fireEvent.click(await screen.findByRole("button", { name: "Use this computer" }));
    const dialog = within(await screen.findByRole("dialog", { name: "Keep the token in a file?" }));
    expect(dialog.getByText("No keyring on this desktop.", { exact: false })).toBeTruthy();
    expect(screen.queryByRole("alert")).toBeNull();
    expect(host.calls).toEqual([]);
    await fireEvent.click(dialog.getByRole("button", { name: "Cancel" }));
    expect(screen.queryByRole("dialog")).toBeNull();
    await fireEvent.click(screen.getByRole("button", { name: "Use this computer" }));
    await fireEvent.click(await screen.findByRole("button", { name: "Keep it in a file" }));
    expect(await screen.findByText("Token saved in a file that only you can read")).toBeTruthy();
    expect(host.calls).toEqual([["pairThisComputer", "workbench"]]);
  });

  it("joins a team by address and key, and keeps no key on the page", async () => {
    const { host } = show();
    await fireEvent.click(await screen.findByRole("button", { name: "Enter the address" }));
    const hub = screen.getByLabelText("Hub address");
    await fireEvent.input(hub, { target: { value: "team.example" } });
    await fireEvent.click(screen.getByRole("button", { name: "Pair with this hub" }));
    expect(hub.getAttribute("aria-invalid")).toBe("true");
    expect(host.calls).toEqual([]);
    await fireEvent.input(hub, { target: { value: "https://team.example/" } });
    await fireEvent.input(screen.getByLabelText("API key"), { target: { value: "ak_secret" } });
    await fireEvent.click(screen.getByRole("button", { name: "Pair with this hub" }));
    expect(host.calls).toEqual([["pairWithApiKey", "https://team.example", "ak_secret", "workbench"]]);
    expect(document.body.innerHTML).not.toContain("ak_secret");
  });

  describe("where the hub lets people sign in in the browser", () => {
    const script = { methods: ["key", "oidc"] };

    async function enter(address = "https://team.example/") {
      await fireEvent.click(await screen.findByRole("button", { name: "Enter the address" }));
      const hub = screen.getByLabelText("Hub address");
      await fireEvent.input(hub, { target: { value: address } });
      await fireEvent.change(hub);
    }

    it("opens the browser, waits in words, and pairs when the person is back", async () => {
      const { host, container } = show(script);
      await enter();
      await fireEvent.click(await screen.findByRole("button", { name: "Sign in with the browser" }));
      expect((await screen.findByText("Waiting for your sign-in to team.example", { exact: false })).role).toBe(
        "status",
      );
      expect(document.activeElement).toBe(screen.getByRole("button", { name: "Cancel sign-in" }));
      expect(screen.queryByRole("list", { name: "Steps of pairing" })).toBeNull();
      await expectAccessible(container);
      host.comeBack();
      expect(await screen.findByRole("heading", { name: "This machine is paired" })).toBeTruthy();
      expect(host.calls).toEqual([["signIn", "https://team.example", "workbench"]]);
    });

    it("goes back to the form when it is cancelled, without a word of failure", async () => {
      const { host } = show(script);
      await enter();
      await fireEvent.click(await screen.findByRole("button", { name: "Sign in with the browser" }));
      await fireEvent.click(await screen.findByRole("button", { name: "Cancel sign-in" }));
      expect(await screen.findByRole("button", { name: "Sign in with the browser" })).toBeTruthy();
      expect(screen.queryByRole("alert")).toBeNull();
      expect(host.calls.map(([call]) => call)).toEqual(["signIn", "cancelSignIn"]);
    });

    it("says what went wrong in the browser, and offers it again", async () => {
      const { host } = show(script);
      await enter();
      await fireEvent.click(await screen.findByRole("button", { name: "Sign in with the browser" }));
      await screen.findByRole("button", { name: "Cancel sign-in" });
      host.comeBack({ code: "sign_in_denied", message: "id.example refused the sign-in", fix: "sign in again" });
      expect((await screen.findByRole("alert")).textContent).toContain("Id.example refused the sign-in.");
      expect(screen.getByRole("button", { name: "Sign in with the browser" })).toBeTruthy();
    });

    it("asks about a file before the browser opens, where there is no keyring", async () => {
      const { host } = show({ ...script, snapshot: { keyring: "locked" } });
      await enter();
      await fireEvent.click(await screen.findByRole("button", { name: "Sign in with the browser" }));
      const dialog = within(await screen.findByRole("dialog", { name: "Keep the token in a file?" }));
      expect(host.calls).toEqual([]);
      await fireEvent.click(dialog.getByRole("button", { name: "Keep it in a file" }));
      await screen.findByRole("button", { name: "Cancel sign-in" });
      host.comeBack();
      expect(await screen.findByText("Token saved in a file that only you can read")).toBeTruthy();
    });

    it("ends a sign-in that nobody sees any more", async () => {
      const { host } = show(script);
      await enter();
      await fireEvent.click(await screen.findByRole("button", { name: "Sign in with the browser" }));
      await screen.findByRole("button", { name: "Cancel sign-in" });
      location.hash = "#/settings";
      window.dispatchEvent(new HashChangeEvent("hashchange"));
      await vi.waitFor(() => expect(host.calls.map(([call]) => call)).toEqual(["signIn", "cancelSignIn"]));
    });

    it("offers nothing of it for another address, a hub with keys only, or one that can't be asked", async () => {
      const { unmount } = show(script);
      await enter("team.example");
      expect(screen.queryByRole("button", { name: "Sign in with the browser" })).toBeNull();
      unmount();
      const refuse = { signInMethods: { code: "hub_unreachable", message: "refused", fix: null } };
      for (const other of [{}, { ...script, refuse }]) {
        const { unmount } = show(other);
        await enter();
        await Promise.resolve();
        expect(screen.queryByRole("button", { name: "Sign in with the browser" })).toBeNull();
        expect(screen.queryByRole("alert")).toBeNull();
        unmount();
      }
    });
  });

  it("asks before it pairs with a pasted link, and shows its parts as text", async () => {
    const { host, container } = show();
    const label = "<img src=x onerror=alert(1)>";
    await paste(`everdict://pair?hub=https://team.example&token=rnr_a-1&label=${encodeURIComponent(label)}`);
    const dialog = within(await screen.findByRole("dialog", { name: "Pair with this hub?" }));
    expect(dialog.getByText("https://team.example")).toBeTruthy();
    expect(dialog.getByText(label)).toBeTruthy();
    expect(container.querySelector("img[src='x']")).toBeNull();
    expect(host.calls).toEqual([]);
    await fireEvent.click(dialog.getByRole("button", { name: "Pair" }));
    expect(host.calls.map(([call, hub, , name]) => [call, hub, name])).toEqual([
      ["pairWithToken", "https://team.example", label],
    ]);
  });

  it("does nothing with a link that isn't confirmed", async () => {
    const { host } = show();
    await paste("everdict://pair?hub=https://team.example&token=rnr_a-1");
    await fireEvent.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Cancel" }));
    expect(screen.queryByRole("dialog")).toBeNull();
    expect(host.calls).toEqual([]);
  });

  it("asks a bare token for its hub", async () => {
    const { host } = show();
    await paste("rnr_a-1");
    expect(screen.queryByRole("dialog")).toBeNull();
    await fireEvent.input(screen.getByLabelText("Hub address"), { target: { value: "http://10.0.0.5:8787" } });
    await fireEvent.click(screen.getByRole("button", { name: "Check it" }));
    await fireEvent.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Pair" }));
    expect(host.calls).toEqual([["pairWithToken", "http://10.0.0.5:8787", "rnr_a-1", "workbench"]]);
  });

  it("refuses a hostile text with a sentence", async () => {
    show();
    await paste("javascript:alert(1)");
    expect(screen.getByRole("alert").textContent).toContain("This link isn't for pairing.");
    expect(screen.queryByRole("dialog")).toBeNull();
  });

  it("has nothing that axe objects to", async () => {
    const { container } = show();
    await paste("rnr_");
    await expectAccessible(container);
    await fireEvent.input(screen.getByLabelText("Link, token or command"), {
      target: { value: "everdict://pair?hub=https://team.example&token=rnr_a-1" },
    });
    await fireEvent.click(screen.getByRole("button", { name: "Check it" }));
    await expectAccessible(await screen.findByRole("dialog"));
  });
});
