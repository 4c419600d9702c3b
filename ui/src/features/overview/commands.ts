/** What to type; the same in every language. */
export const commands = {
  pair: "everdict-runner pair --hub <address> --api-key-stdin",
  pairHelp: "everdict-runner help pair",
  start: "everdict-runner start",
  status: "everdict-runner status",
} as const;
