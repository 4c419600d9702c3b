import type { AppSnapshot, Failure } from "../../host/generated/contract";
import type { Desk } from "../../state/desk.svelte";
import type { Pairing } from "./pair";

/** One pairing under way, with the question that a missing keyring raises. */
export class PairingFlow {
  busy = $state(false);
  /** The person is elsewhere: the form says so, and the checklist comes once they are through. */
  waiting = $state(false);
  /** What can't go into the keyring, until the person says where the token may go. */
  withoutKeyring = $state.raw<{ pairing: Pairing; waits: boolean; failure: Failure } | null>(null);

  constructor(
    readonly desk: Desk,
    readonly snapshot: () => AppSnapshot,
  ) {}

  /**
   * Pairs, with the checklist in view until someone leaves it; a refused pairing brings the cards back.
   *
   * One that `waits` for the person elsewhere keeps its form in view until they are through.
   */
  async pair(pairing: Pairing, waits = false, allowFile = false): Promise<void> {
    const { desk } = this;
    this.busy = true;
    this.waiting = waits;
    desk.pairingSince = this.snapshot().runners.map((runner) => runner.id);
    if (!(await desk.act(() => pairing(allowFile)))) {
      desk.pairingSince = null;
      const failure = desk.failure;
      if (failure?.code.startsWith("keyring_") && !allowFile) {
        desk.failure = null;
        this.withoutKeyring = { pairing, waits, failure };
      }
      // Who cancels knows.
      if (failure?.code === "sign_in_cancelled") desk.failure = null;
    }
    this.busy = false;
    this.waiting = false;
  }

  allowFile(): void {
    const asked = this.withoutKeyring;
    this.withoutKeyring = null;
    if (asked !== null) void this.pair(asked.pairing, asked.waits, true);
  }
}
