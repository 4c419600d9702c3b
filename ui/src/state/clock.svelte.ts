import { createSubscriber } from "svelte/reactivity";

// Ages and elapsed times are shown in whole seconds.
const TICK_MS = 1000;

const subscribe = createSubscriber((update) => {
  const timer = setInterval(update, TICK_MS);
  return () => clearInterval(timer);
});

/** The time now, in milliseconds; whoever reads it in a template is drawn again each second. */
export function now(): number {
  subscribe();
  return Date.now();
}
