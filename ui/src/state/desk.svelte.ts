import { getContext, setContext } from "svelte";
import type { Failure, RunnerView } from "../host/generated/contract";
import { asFailure, type Host } from "../host/host";
import type { Live } from "./live.svelte";
import type { Preferences } from "./preferences.svelte";
import type { Router } from "./route.svelte";

const CONTEXT = Symbol("desk");

/** What every screen works with. */
export class Desk {
  /** Why the last thing that a person asked for didn't happen. */
  failure = $state.raw<Failure | null>(null);
  /** What became of the last thing that a person asked for, where that can't be seen otherwise. */
  news = $state<string | null>(null);
  /** The hub that a person is about to join again. */
  joining = $state<string | null>(null);
  /** The runners from before the pairing that the first window is showing; `null` when it shows none. */
  pairingSince = $state.raw<string[] | null>(null);

  constructor(
    readonly host: Host,
    readonly live: Live,
    readonly router: Router,
    readonly preferences: Preferences,
  ) {}

  /** Does what a person asked for; a failure is kept to be shown, and the answer is whether there was none. */
  async act(work: () => Promise<unknown>): Promise<boolean> {
    this.failure = null;
    this.news = null;
    try {
      await work();
      return true;
    } catch (thrown) {
      this.failure = asFailure(thrown);
      return false;
    }
  }

  /** The runner that came with the pairing under way. */
  get newRunner(): RunnerView | null {
    const known = this.pairingSince;
    if (known === null) return null;
    return this.live.snapshot?.runners.find((runner) => !known.includes(runner.id)) ?? null;
  }
}

export function provideDesk(desk: Desk): void {
  setContext(CONTEXT, desk);
}

export function useDesk(): Desk {
  return getContext<Desk>(CONTEXT);
}
