import { Channel, invoke } from "@tauri-apps/api/core";
import { hostOver } from "./methods";

/** Asks the desktop app that owns this web view. */
export const tauriHost = hostOver({
  call: (command, args) => invoke(command, args),
  async subscribe<Message>(
    { command, channel: place }: { command: string; channel: string },
    args: Record<string, unknown>,
    onMessage: (message: Message) => void,
  ) {
    let open = true;
    const channel = new Channel<Message>((message) => {
      if (open) onMessage(message);
    });
    const id = await invoke<number>(command, { ...args, [place]: channel });
    return () => {
      if (!open) return;
      open = false;
      // The window may be closing; the engine drops the subscriptions of a closed window itself.
      invoke("unwatch", { id }).catch(() => {});
    };
  },
});
