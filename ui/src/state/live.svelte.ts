import type { AppEvent, AppSnapshot, Failure, JobView } from "../host/generated/contract";
import { asFailure, type Host, type Stop } from "../host/host";

// How many jobs the list asks for: more than a day of a busy machine, and a table that is drawn in one go.
const JOBS_ASKED = 200;
// Soon enough not to be noticed.
const LOOK_EVERY_MS = 30;

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
  #listening = 0;
  #asking: Promise<void> | null = null;
  #again = false;
  #jobsAsked = 0;

  constructor(readonly host: Host) {}

  /**
   * Begins to listen; the returned function ends it.
   *
   * While the page is hidden nothing is listened to: events that nobody sees would wake the engine's web view for
   * nothing. When it is shown again everything is asked anew.
   */
  start(): Stop {
    const follow = () => {
      const seen = !document.hidden;
      if (seen === this.#open) return;
      this.#open = seen;
      if (seen) void this.#listen();
      else this.#end();
    };
    follow();
    document.addEventListener("visibilitychange", follow);
    return () => {
      document.removeEventListener("visibilitychange", follow);
      this.#open = false;
      this.#end();
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

  #end(): void {
    this.#listening++;
    this.#stop?.();
    this.#stop = null;
  }

  /** Waits until a job is known, at most so long. */
  async sees(jobId: string, withinMs: number): Promise<boolean> {
    const until = Date.now() + withinMs;
    while (!this.jobs?.some((job) => job.id === jobId)) {
      if (Date.now() >= until) return false;
      await new Promise((resume) => setTimeout(resume, LOOK_EVERY_MS));
    }
    return true;
  }

  async #listen(): Promise<void> {
    const mine = ++this.#listening;
    try {
      const stop = await this.host.watch(
        (event) => this.#take(event),
        (failure) => this.#line(failure),
      );
      if (mine !== this.#listening) return stop();
      this.#stop = stop;
    } catch (thrown) {
      if (mine === this.#listening) this.failure = asFailure(thrown);
      return;
    }
    await this.resync();
  }

  /** The connection broke, or is back: perhaps to an engine that counts its events from the start. */
  #line(failure: Failure | null): void {
    this.failure = failure;
    if (failure !== null) return;
    this.#seq = -1;
    void this.resync();
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
