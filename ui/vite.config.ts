import { svelte } from "@sveltejs/vite-plugin-svelte";
import { svelteTesting } from "@testing-library/svelte/vite";
import { defineConfig } from "vitest/config";
import app from "../tauri.conf.json" with { type: "json" };

export default defineConfig({
  plugins: [svelte(), svelteTesting()],
  // The app's own web views are the only readers; relative addresses work under any of their origins.
  base: "./",
  server: { host: "127.0.0.1", port: 5173, strictPort: true },
  // A preview obeys the rules of the app's web view, so that what they forbid fails here too.
  preview: {
    host: "127.0.0.1",
    port: 5174,
    strictPort: true,
    headers: { "content-security-policy": app.app.security.csp },
  },
  build: {
    target: "safari16",
    // The content security policy allows no data: addresses and no inline scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.ts"],
    testTimeout: 20_000,
  },
});
