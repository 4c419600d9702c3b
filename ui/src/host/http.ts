import type { Failure } from "./generated/contract";
import { asFailure, type Host, type Stop } from "./host";
import { hostOver, type Wire } from "./methods";
import { shared } from "./shared";

const TICKET = /^#ticket=([A-Za-z0-9._~-]{1,512})$/;

const AWAY: Failure = {
  code: "AWAY",
  message: "the runner that serves this page doesn't answer",
  fix: "see whether everdict-runner ui still runs; the page goes on by itself when it does",
};
const NO_SESSION: Failure = {
  code: "SESSION",
  message: "this page has no session with the runner",
  fix: "run everdict-runner ui once more and open the link that it prints",
};
const FOREIGN: Failure = {
  code: "FOREIGN",
  message: "something else than the runner answered",
  fix: "open the link that everdict-runner ui prints, without a proxy in between",
};

/** Reads an answer: JSON with the result, or with the failure where the status says so. */
async function read(response: Response): Promise<unknown> {
  if (response.status === 401) throw NO_SESSION;
  const text = await response.text();
  let answer: unknown = null;
  try {
    answer = text === "" ? null : JSON.parse(text);
  } catch {
    throw FOREIGN;
  }
  if (response.ok) return answer;
  throw answer !== null && typeof answer === "object" && "code" in answer
    ? asFailure(answer)
    : { ...FOREIGN, message: `${FOREIGN.message} (${response.status})` };
}

async function call(command: string, args: Record<string, unknown>): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(`api/${command}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      credentials: "same-origin",
      body: JSON.stringify(args),
    });
  } catch {
    throw AWAY;
  }
  return read(response);
}

async function whyNot(address: string): Promise<unknown> {
  try {
    const response = await fetch(address, { credentials: "same-origin" });
    if (!response.ok) return await read(response);
    // Open by now, or no stream at all; whoever tries again will see.
    await response.body?.cancel();
    return FOREIGN;
  } catch (thrown) {
    return thrown instanceof TypeError ? AWAY : thrown;
  }
}

const subscribe: Wire["subscribe"] = (stream, args, onMessage, onLine) => {
  const query = new URLSearchParams(Object.entries(args).map(([name, value]) => [name, String(value)]));
  const source = new EventSource(`api/${stream.command}${query.size > 0 ? `?${query}` : ""}`);
  source.addEventListener("message", (event) => onMessage(JSON.parse(event.data)));
  return new Promise<Stop>((resolve, reject) => {
    let opened = false;
    let lost = false;
    source.addEventListener("open", () => {
      if (lost) onLine?.(null);
      lost = false;
      if (!opened) resolve(() => source.close());
      opened = true;
    });
    source.addEventListener("error", () => {
      const ended = source.readyState === EventSource.CLOSED;
      if (!opened && ended) {
        // The browser keeps the reason to itself; asked once more by another way, the door tells it.
        whyNot(source.url).then(reject);
        return;
      }
      lost = true;
      onLine?.(ended ? NO_SESSION : AWAY);
    });
  });
};

/** Asks the runner that served this page; the one-time ticket of the printed link becomes a cookie first. */
export async function httpHost(place: Location, history: History): Promise<Host> {
  const ticket = TICKET.exec(place.hash)?.[1];
  if (ticket !== undefined) {
    // Gone from the address before anything else is asked, so that no copy of it is of use.
    history.replaceState(null, "", `${place.pathname}${place.search}`);
    // A ticket that was used already is no harm while its cookie lives: the first call tells.
    await call("session", { ticket }).catch(() => {});
  }
  const one = hostOver({ call, subscribe });
  const { watch } = hostOver({ call, subscribe: shared(subscribe) });
  return { ...one, watch, saveText };
}

/** Keeps a text as a file by the browser's own download: the engine's machine may not be the person's. */
export async function saveText(name: string, text: string): Promise<null> {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
  return null;
}
