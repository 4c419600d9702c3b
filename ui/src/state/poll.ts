/** Asks now and again after a pause for as long as the answer says so; a hidden page asks nothing. */
export function poll(ask: () => Promise<boolean>, everyMs: number): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let ended = false;
  let asking = false;
  let again = true;
  const turn = async () => {
    clearTimeout(timer);
    if (ended || asking || document.hidden) return;
    asking = true;
    again = await ask();
    asking = false;
    if (again && !ended) timer = setTimeout(turn, everyMs);
  };
  const seen = () => {
    if (again) void turn();
  };
  document.addEventListener("visibilitychange", seen);
  void turn();
  return () => {
    ended = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", seen);
  };
}
