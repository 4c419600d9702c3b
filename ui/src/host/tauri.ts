import { invoke } from "@tauri-apps/api/core";
import type { Host, Overview } from "./host";

/** Asks the desktop app that owns this web view. */
export const tauriHost: Host = {
  overview: () => invoke<Overview>("get_overview"),
};
