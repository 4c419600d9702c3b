import type { Failure } from "./generated/contract";
import type { Stop } from "./host";
import type { Wire } from "./methods";

type Said<Message> = { message: Message } | { line: Failure | null };

/**
 * One stream for all windows of a browser that listen to the same.
 *
 * Over HTTP/1.1 a browser opens six connections to one place, and each window would hold one for as long as it is seen:
 * the seventh would hang. The window that holds the lock has the stream and passes on what comes; when it goes, the next
 * one opens a stream of its own. Only for a stream whose listeners ask for what was before by themselves.
 */
export function shared(subscribe: Wire["subscribe"]): Wire["subscribe"] {
  // Absent outside of a secure context; then each window has its own.
  const locks: LockManager | null | undefined = navigator.locks;
  if (!locks || typeof BroadcastChannel === "undefined") return subscribe;
  return async <Message>(
    stream: { command: string; channel: string },
    args: Record<string, unknown>,
    onMessage: (message: Message) => void,
    onLine?: (failure: Failure | null) => void,
  ): Promise<Stop> => {
    const name = `everdict ${stream.command}`;
    const channel = new BroadcastChannel(name);
    const leaving = new AbortController();
    const left = new Promise<void>((resolve) => leaving.signal.addEventListener("abort", () => resolve()));
    const take = (said: Said<Message>) => {
      if (leaving.signal.aborted) return;
      if ("line" in said) onLine?.(said.line);
      else onMessage(said.message);
    };
    const tell = (said: Said<Message>) => {
      take(said);
      if (!leaving.signal.aborted) channel.postMessage(said);
    };
    channel.addEventListener("message", (event: MessageEvent<Said<Message>>) => take(event.data));

    /** Has the stream until this window leaves; `opened` hears of its beginning. */
    const lead = async (opened: () => void) => {
      const stop = await subscribe<Message>(
        stream,
        args,
        (message) => tell({ message }),
        (line) => tell({ line }),
      );
      opened();
      await left;
      stop();
    };
    /** Waits for the stream to be free; a failure is told, since nobody waits for it any more. */
    const inherit = () =>
      locks
        .request(name, { signal: leaving.signal }, () => lead(() => tell({ line: null })))
        .catch((thrown) => {
          if (!leaving.signal.aborted) take({ line: thrown as Failure });
        });

    await new Promise<void>((resolve, reject) => {
      locks
        .request(name, { ifAvailable: true }, async (lock) => {
          if (lock !== null) return lead(resolve);
          void inherit();
          resolve();
        })
        .catch(reject);
    }).catch((thrown) => {
      channel.close();
      throw thrown;
    });
    return () => {
      leaving.abort();
      channel.close();
    };
  };
}
