import "./kit/tokens.css";
import "./kit/base.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { tauriHost } from "./host/tauri";
import { localeFor, translator } from "./i18n";

const target = document.getElementById("app");
if (target === null) throw new Error("BUG: index.html has no #app element");

const locale = localeFor(navigator.languages);
document.documentElement.lang = locale;
mount(App, { target, props: { host: tauriHost, translate: translator(locale) } });
