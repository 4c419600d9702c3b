import "./kit/tokens.css";
import "./kit/base.css";
import { isTauri } from "@tauri-apps/api/core";
import { mount } from "svelte";
import App from "./App.svelte";
import type { Host } from "./host/host";
import { tauriHost } from "./host/tauri";

async function hostOfThisPage(): Promise<Host> {
  // In a plain browser there is no engine: the development server shows a scripted one, and a release has none.
  if ((import.meta.env.DEV || import.meta.env.MODE === "demo") && !isTauri()) {
    const { demoHost } = await import("./host/scripted");
    return demoHost(location.search);
  }
  return tauriHost;
}

const target = document.getElementById("app");
if (target === null) throw new Error("BUG: index.html has no #app element");
mount(App, { target, props: { host: await hostOfThisPage() } });
