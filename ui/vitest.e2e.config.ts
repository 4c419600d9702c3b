import { defineConfig } from "vitest/config";

// Flows and measurements in a real browser: `npm run e2e` builds the pages first.
export default defineConfig({
  test: {
    environment: "node",
    include: ["e2e/**/*.test.ts"],
    // A measurement beside another browser would measure that one too.
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
