export type Direction = "ascending" | "descending";

export interface Order<Column extends string> {
  column: Column;
  direction: Direction;
}

/** Puts rows in order by a value each; those without one stay last in both directions, equal ones as they were. */
export function inOrder<Row>(
  rows: readonly Row[],
  value: (row: Row) => string | number | null,
  direction: Direction,
): Row[] {
  const sign = direction === "ascending" ? 1 : -1;
  return [...rows].sort((one, other) => {
    const a = value(one);
    const b = value(other);
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b));
  });
}

/** The order after a press on a column's head: the other way round, or that column from its usual end. */
export function turned<Column extends string>(
  order: Order<Column>,
  column: Column,
  usual: Direction = "ascending",
): Order<Column> {
  if (order.column !== column) return { column, direction: usual };
  return { column, direction: order.direction === "ascending" ? "descending" : "ascending" };
}
