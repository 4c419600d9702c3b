import type { AppSnapshot, Failure } from "../../host/contract";
import type { Desk } from "../../state/desk.svelte";
import type { Pairing } from "./pair";

/** One pairing under way, with the question that a missing keyring raises. */
export class PairingFlow {
  busy = $state(false);
  /** What can't go into the keyring, until the person says where the token may go. */
  withoutKeyring = $state.raw<{ pairing: Pairing; failure: Failure } | null>(null);

  constructor(
    readonly desk: Desk,
    readonly snapshot: () => AppSnapshot,
  ) {}

  /** Pairs, with the checklist in view until someone leaves it; a refused pairing brings the cards back. */
  async pair(pairing: Pairing, allowFile = false): Promise<void> {
    const { desk } = this;
    this.busy = true;
    desk.pairingSince = this.snapshot().runners.map((runner) => runner.id);
    if (!(await desk.act(() => pairing(allowFile)))) {
      desk.pairingSince = null;
      const failure = desk.failure;
      if (failure?.code.startsWith("keyring_") && !allowFile) {
        desk.failure = null;
        this.withoutKeyring = { pairing, failure };
      }
    }
    this.busy = false;
  }

  allowFile(): void {
    const asked = this.withoutKeyring;
    this.withoutKeyring = null;
    if (asked !== null) void this.pair(asked.pairing, true);
  }
}
