// Web engines cap an element near 17 to 33 million pixels; beyond this the scroll bar stands for more than it is high.
const MAX_PX = 8_000_000;

/**
 * Where a list of any length is scrolled to, over a scroll box of bounded height.
 *
 * Up to `MAX_PX` the two are the same. Beyond, a move of less than a page moves the list by as much, and a larger one
 * (the bar dragged, Home, End) goes to the same share of the list.
 */
export class Scroll {
  /** Pixels of the list above the view. */
  top = 0;
  /** What the box was scrolled to when `top` was set. */
  physical = 0;

  constructor(readonly maxPx = MAX_PX) {}

  /** The height of the box's content for a list of so many pixels. */
  sheet(total: number): number {
    return Math.min(total, this.maxPx);
  }

  /** Takes where the box is now; answers with the move of the list. */
  moved(physical: number, total: number, page: number): number {
    const before = this.top;
    const by = physical - this.physical;
    const most = Math.max(0, total - page);
    if (total <= this.maxPx) this.top = physical;
    else if (Math.abs(by) < page) this.top = Math.min(most, Math.max(0, before + by));
    else this.top = (physical / Math.max(1, this.maxPx - page)) * most;
    this.physical = physical;
    return this.top - before;
  }

  /** Where the box has to be for the list to be at `top`. */
  boxFor(top: number, total: number, page: number): number {
    const most = Math.max(0, total - page);
    const to = Math.min(most, Math.max(0, top));
    return total <= this.maxPx ? to : (to / Math.max(1, most)) * (this.maxPx - page);
  }

  /** Whether the box ran into an end that the list has not reached, or stands far from its share. */
  adrift(total: number, page: number): boolean {
    return total > this.maxPx && Math.abs(this.boxFor(this.top, total, page) - this.physical) > page / 2;
  }
}
