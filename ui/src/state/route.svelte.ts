export type Tab = "log" | "screen" | "trace" | "scores" | "changes" | "evidence";
export type Route =
  | { page: "overview" }
  | { page: "jobs" }
  | { page: "job"; id: string }
  | { page: "runs" }
  | { page: "batch"; id: string }
  | { page: "compare"; base: string; candidate: string }
  | { page: "pair" }
  | { page: "settings" }
  | { page: "diagnostics" };

const PLAIN = ["overview", "jobs", "runs", "pair", "settings", "diagnostics"] as const;

function decoded(parts: string[]): string[] {
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return [];
  }
}

/** Reads an address such as `#/jobs/<id>`; anything else is the overview. */
export function routeOf(hash: string): Route {
  const [page, id, more] = decoded(hash.replace(/^#\/?/, "").split("/"));
  if (page === "jobs" && id) return { page: "job", id };
  if (page === "runs" && id && more) return { page: "compare", base: id, candidate: more };
  if (page === "runs" && id) return { page: "batch", id };
  return { page: PLAIN.find((known) => known === page) ?? "overview" };
}

export function addressOf(route: Route): string {
  if (route.page === "job") return `#/jobs/${encodeURIComponent(route.id)}`;
  if (route.page === "batch") return `#/runs/${encodeURIComponent(route.id)}`;
  if (route.page === "compare")
    return `#/runs/${encodeURIComponent(route.base)}/${encodeURIComponent(route.candidate)}`;
  return `#/${route.page}`;
}

/** Where the window is; follows the address, so that back and forward work. */
export class Router {
  route = $state.raw<Route>(routeOf(location.hash));

  start(): () => void {
    const follow = () => this.#take(routeOf(location.hash));
    follow();
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }

  go(route: Route): void {
    location.hash = addressOf(route);
    this.#take(route);
  }

  /** The same address again is no change: what a page has open stays open. */
  #take(route: Route): void {
    if (addressOf(route) !== addressOf(this.route)) this.route = route;
  }
}
