export type Tab = "log" | "trace" | "scores" | "changes" | "raw";
export type Route =
  | { page: "overview" }
  | { page: "jobs" }
  | { page: "job"; id: string }
  | { page: "pair" }
  | { page: "settings" };

/** Reads an address such as `#/jobs/<id>`; anything else is the overview. */
export function routeOf(hash: string): Route {
  const [page, id] = hash.replace(/^#\/?/, "").split("/");
  if (page === "jobs" && id) {
    try {
      return { page: "job", id: decodeURIComponent(id) };
    } catch {
      return { page: "jobs" };
    }
  }
  return page === "jobs" || page === "pair" || page === "settings" ? { page } : { page: "overview" };
}

export function addressOf(route: Route): string {
  return route.page === "job" ? `#/jobs/${encodeURIComponent(route.id)}` : `#/${route.page}`;
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
