const MOST = 3;
const LONGEST = 64;

/** Returns the names that a misspelt one may mean: up to three, nearest first. */
export function nearestNames(misspelt: string, names: Iterable<string>): string[] {
  if (misspelt.length > LONGEST) return [];
  const near = [...names].flatMap((name) => {
    const edits = editsBetween(misspelt.toLowerCase(), name.toLowerCase());
    const isNear = edits < name.length && edits <= Math.max(1, Math.floor(name.length / 3));
    return isNear ? [{ name, edits }] : [];
  });
  return near
    .sort((one, other) => one.edits - other.edits)
    .slice(0, MOST)
    .map(({ name }) => name);
}

/** Returns an error that names the first of `names` that is not known, and the name that was meant if one is near. */
export function unknownName(what: string, names: Iterable<string>, known: readonly string[]): Error | undefined {
  const unknown = [...names].find((name) => !known.includes(name));
  if (unknown === undefined) return undefined;
  const [nearest] = nearestNames(unknown, known);
  return new Error(`unknown ${what} ${JSON.stringify(unknown)}${nearest ? `: did you mean ${nearest}?` : ''}`);
}

/** Returns the number of edits between two texts, also exchanges of neighbours, or infinity for long texts. */
export function editsBetween(one: string, other: string): number {
  if (one.length > LONGEST || other.length > LONGEST) return Number.POSITIVE_INFINITY;
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, column) => column);
  for (let row = 1; row <= one.length; row += 1) {
    const next = [row];
    for (let column = 1; column <= other.length; column += 1) {
      const isSame = one[row - 1] === other[column - 1];
      const replaced = (last[column - 1] ?? 0) + Number(!isSame);
      const changed = Math.min(replaced, (last[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1);
      const isExchange =
        row > 1 && column > 1 && one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      next.push(isExchange ? Math.min(changed, (before[column - 2] ?? 0) + 1) : changed);
    }
    [before, last] = [last, next];
  }
  return last[other.length] ?? 0;
}
