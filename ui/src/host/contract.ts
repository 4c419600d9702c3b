/** The engine's shapes as the page uses them: the generated ones, and what the engine is about to send. */
import type * as made from "./generated/contract";

export type * from "./generated/contract";

/** `stream` says who printed the line: the agent, the runner or a container. */
export type LogLine = made.LogLine & { stream?: string };
export type LogBatch = Omit<made.LogBatch, "lines"> & { lines: LogLine[] };
