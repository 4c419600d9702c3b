/** Pairs; with `allowFile` the token may go into a file where the keyring can't take it. */
export type Pairing = (allowFile: boolean) => Promise<void>;

/** Runs a pairing in the first window; one that `waits` for the person keeps its form in view until it is through. */
export type Pair = (pairing: Pairing, waits?: boolean) => Promise<void>;
