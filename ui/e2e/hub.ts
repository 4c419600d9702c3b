import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { extname, join } from "node:path";
import { CALLS, STREAMS } from "../src/host/methods";
import type { ScriptedHost } from "../src/host/scripted";

const DIST = join(import.meta.dirname, "..", "dist");
const KINDS: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".png": "image/png",
};
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

type Handler = (...args: unknown[]) => Promise<unknown>;

/** The released pages over a scripted engine, by the same door as `everdict-runner ui`: ticket, cookie, POST and SSE. */
export class PageServer {
  host: ScriptedHost;
  /** Streams that are open now. */
  streams = 0;
  /** Answers every call with this page, as the sign-in page of a network does. */
  portal: string | null = null;
  readonly asked: string[] = [];
  readonly #server: Server;
  readonly #open = new Set<ServerResponse>();
  #ticket = randomUUID();
  #session = "";
  #port = 0;

  constructor(host: ScriptedHost) {
    this.host = host;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  async listen(): Promise<void> {
    await new Promise<void>((ready) => this.#server.listen(this.#port, "127.0.0.1", ready));
    const address = this.#server.address();
    if (address !== null && typeof address !== "string") this.#port = address.port;
  }

  /** As a stopped process: nothing answers at its address. */
  async close(): Promise<void> {
    for (const response of this.#open) response.destroy();
    this.#server.closeAllConnections();
    await new Promise((closed) => this.#server.close(closed));
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/`;
  }

  /** The printed link; each ticket works once. */
  link(): string {
    this.#ticket = randomUUID();
    return `${this.url}#ticket=${this.#ticket}`;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.url);
    if (!url.pathname.startsWith("/api/")) return this.#page(url.pathname, response);
    const command = url.pathname.slice("/api/".length);
    this.asked.push(command);
    if (this.portal !== null) {
      response.setHeader("content-type", "text/html");
      response.end(this.portal);
      return;
    }
    if (command === "session") return this.#exchange(await bodyOf(request), response);
    if (this.#session === "" || !(request.headers.cookie ?? "").includes(`session=${this.#session}`)) {
      return json(response, 401, { code: "session", message: "no session", fix: null });
    }
    const stream = Object.entries(STREAMS).find(([, one]) => one.command === command);
    if (stream !== undefined) return this.#stream(stream[0], url.searchParams.get("jobId"), response);
    const call = Object.entries(CALLS).find(([, one]) => one.command === command);
    if (call === undefined) return json(response, 404, { code: "not_found", message: `no ${command}`, fix: null });
    const [name, { args }] = call;
    const body = (await bodyOf(request)) as Record<string, unknown>;
    try {
      const handler = (this.host as unknown as Record<string, Handler>)[name] as Handler;
      json(response, 200, (await handler.apply(this.host, [...args.map((arg) => body[arg])])) ?? null);
    } catch (thrown) {
      json(response, 400, thrown);
    }
  }

  #exchange(body: unknown, response: ServerResponse): void {
    if ((body as { ticket?: unknown }).ticket !== this.#ticket) {
      json(response, 401, { code: "session", message: "this link was used already", fix: null });
      return;
    }
    this.#ticket = randomUUID();
    this.#session = randomUUID();
    response.setHeader("set-cookie", `session=${this.#session}; HttpOnly; SameSite=Strict; Path=/`);
    json(response, 200, null);
  }

  async #stream(name: string, jobId: string | null, response: ServerResponse): Promise<void> {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    response.write(": open\n\n");
    const send = (message: unknown) => response.write(`data: ${JSON.stringify(message)}\n\n`);
    this.#open.add(response);
    this.streams++;
    const stop =
      name === "watch"
        ? await this.host.watch(send)
        : name === "watchLog"
          ? await this.host.watchLog(send, jobId ?? "")
          : await this.host.watchFrames(send, jobId ?? "");
    response.on("close", () => {
      stop();
      this.streams--;
      this.#open.delete(response);
    });
  }

  #page(path: string, response: ServerResponse): void {
    const name = path === "/" ? "index.html" : path.slice(1);
    try {
      const content = readFileSync(join(DIST, name));
      response.writeHead(200, {
        "content-type": KINDS[extname(name)] ?? "application/octet-stream",
        "content-security-policy": POLICY,
      });
      response.end(content);
    } catch {
      response.writeHead(404).end();
    }
  }
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const text = Buffer.concat(parts).toString("utf8");
  return text === "" ? {} : JSON.parse(text);
}

function json(response: ServerResponse, status: number, answer: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(answer));
}
