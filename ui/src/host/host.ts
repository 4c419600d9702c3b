/** One pairing of this machine with a hub. */
export interface Registration {
  /** The name under which the hub lists the runner. */
  label: string;
  /** The hub's address. */
  hub: string;
  /** What a run targets to land on this runner, as `self:<id>`. */
  runtime: string;
}

export type Runners =
  | { state: "unpaired" }
  | { state: "paired"; registrations: Registration[] }
  | {
      state: "unreadable";
      reason: string;
      /** What the person can do about it. */
      nextStep?: string;
    };

export interface Overview {
  version: string;
  machine: {
    host: string;
    os: string;
    arch: string;
    /** Logical CPUs that this process may use. */
    cpus: number;
  };
  /** Whether something on this desktop shows tray icons. */
  trayHost: boolean;
  runners: Runners;
}

/** Where the page gets its facts from. Each call reads them anew and rejects with a sentence to show. */
export interface Host {
  overview(): Promise<Overview>;
}
