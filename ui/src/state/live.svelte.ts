import type { AppEvent, AppSnapshot, Failure, JobView } from "../host/generated/contract";
import { asFailure, type Host, type Stop } from "../host/host";

// How many jobs the list asks for: more than a day of a busy machine, and a table that is drawn in one go.
const JOBS_ASKED = 200;

/**
 * What the engine last said, kept current by its events.
 *
 * An event with an unexpected number means that one was missed; then everything is asked anew. Nothing
 * older than what is shown ever replaces it.
 */
export class Live {
  snapshot = $state.raw<AppSnapshot | null>(null);
  jobs = $state.raw<JobView[] | null>(null);
  failure = $state.raw<Failure | null>(null);

  #seq = -1;
  #stop: Stop | null = null;
  #open = false;
  #asking: Promise<void> | null = null;
  #again = false;
  #jobsAsked = 0;

  constructor(readonly host: Host) {}

  /** Begins to listen; the returned function ends it. */
  start(): Stop {
    this.#open = true;
    void this.#listen();
    return () => {
      this.#open = false;
      this.#stop?.();
      this.#stop = null;
    };
  }

  /** Asks for everything anew; questions while one is under way become one more question. */
  resync(): Promise<void> {
    if (this.#asking !== null) {
      this.#again = true;
      return this.#asking;
    }
    this.#asking = this.#ask().finally(() => {
      this.#asking = null;
      if (!this.#again) return;
      this.#again = false;
      void this.resync();
    });
    return this.#asking;
  }

  /** Listens again after a failure. */
  async retry(): Promise<void> {
    if (this.#stop === null) await this.#listen();
    else await this.resync();
  }

  async #listen(): Promise<void> {
    try {
      const stop = await this.host.watch((event) => this.#take(event));
      if (!this.#open) return stop();
      this.#stop = stop;
    } catch (thrown) {
      this.failure = asFailure(thrown);
      return;
    }
    await this.resync();
  }

  async #ask(): Promise<void> {
    const asked = ++this.#jobsAsked;
    try {
      const [snapshot, jobs] = await Promise.all([this.host.snapshot(), this.host.jobs(JOBS_ASKED)]);
      if (snapshot.seq >= this.#seq) {
        this.#seq = snapshot.seq;
        this.snapshot = snapshot;
      }
      if (asked === this.#jobsAsked) this.jobs = jobs;
      this.failure = null;
    } catch (thrown) {
      this.failure = asFailure(thrown);
    }
  }

  #take(event: AppEvent): void {
    if (event.seq <= this.#seq) return;
    const missed = this.#seq >= 0 && event.seq !== this.#seq + 1;
    this.#seq = event.seq;
    if (event.kind === "snapshot") {
      this.snapshot = event.snapshot;
      this.failure = null;
    } else this.#merge(event.job);
    if (missed) void this.resync();
  }

  #merge(job: JobView): void {
    const rest = (this.jobs ?? []).filter((one) => one.id !== job.id);
    const at =
      job.endedAt === null ? 0 : rest.findIndex((one) => one.endedAt !== null && one.endedAt <= (job.endedAt ?? ""));
    this.jobs = at === -1 ? [...rest, job] : [...rest.slice(0, at), job, ...rest.slice(at)];
    if (this.snapshot === null) return;
    const active = this.snapshot.active.filter((one) => one.id !== job.id);
    this.snapshot = { ...this.snapshot, active: job.endedAt === null ? [...active, job] : active };
  }
}
