import "./kit/tokens.css";
import "./kit/base.css";
import "./kit/table.css";
import { invoke, isTauri } from "@tauri-apps/api/core";
import { mount } from "svelte";
import App from "./App.svelte";
import type { Host } from "./host/host";
import { httpHost } from "./host/http";
import { tauriHost } from "./host/tauri";
import type { Translate } from "./i18n";

interface Props {
  host: Host;
  translate?: Translate;
}

async function propsOfThisPage(): Promise<Props> {
  if (isTauri()) return { host: tauriHost };
  // The development server and the demo show a scripted engine; any other page was served by a real one.
  if (import.meta.env.DEV || import.meta.env.MODE === "demo") {
    const { demoHost, demoSpeech } = await import("./host/demo");
    return { host: await demoHost(location.search), ...demoSpeech(location.search) };
  }
  return { host: await httpHost(location, history) };
}

const target = document.getElementById("app");
if (target === null) throw new Error("BUG: index.html has no #app element");
mount(App, { target, props: await propsOfThisPage() });

// The desktop app takes a window that never says this for blank. The second frame comes after the first was shown.
if (isTauri()) requestAnimationFrame(() => requestAnimationFrame(() => void invoke("painted").catch(() => {})));
