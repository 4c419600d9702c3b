const MOVES: Record<string, (index: number, last: number) => number> = {
  ArrowDown: (index, last) => Math.min(index + 1, last),
  ArrowUp: (index) => Math.max(index - 1, 0),
  Home: () => 0,
  End: (_, last) => last,
};

function rowOf(target: EventTarget | null): string | null {
  return target instanceof HTMLElement ? (target.closest<HTMLElement>("[data-row]")?.dataset.row ?? null) : null;
}

/**
 * The rows of a table as one stop of the Tab key; the arrow keys go on from there.
 *
 * Each row has one element whose `data-row` is its name; the table hears `onkeydown` and `onfocusin`.
 */
export class RovingRows {
  at = $state<string | null>(null);

  /** `ids` are the rows' names in the order in which they are shown. */
  constructor(readonly ids: () => string[]) {}

  get stop(): string | null {
    const ids = this.ids();
    return this.at !== null && ids.includes(this.at) ? this.at : (ids[0] ?? null);
  }

  onfocusin = (event: FocusEvent): void => {
    const id = rowOf(event.target);
    if (id !== null) this.at = id;
  };

  onkeydown = (event: KeyboardEvent & { currentTarget: HTMLElement }): void => {
    const here = rowOf(event.target);
    if (here === null) return;
    const ids = this.ids();
    const to = MOVES[event.key]?.(ids.indexOf(here), ids.length - 1);
    const id = to === undefined ? undefined : ids[to];
    if (id === undefined || to === undefined) return;
    event.preventDefault();
    this.at = id;
    event.currentTarget.querySelectorAll<HTMLElement>("[data-row]")[to]?.focus();
  };
}
