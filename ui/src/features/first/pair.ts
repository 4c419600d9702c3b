/** Pairs; with `allowFile` the token may go into a file where the keyring can't take it. */
export type Pairing = (allowFile: boolean) => Promise<void>;

/** Runs a pairing in the first window. */
export type Pair = (pairing: Pairing) => Promise<void>;
