/**
 * Leaves out steps as long as the rest still fails (delta debugging).
 *
 * @param steps numbers of the steps of a failed run
 * @param fails runs the given steps, and returns whether the same rule is broken
 * @param maxRuns bound of the calls of `fails`
 */
export async function shrink(
  steps: readonly number[],
  fails: (steps: readonly number[]) => Promise<boolean>,
  maxRuns = 300,
): Promise<readonly number[]> {
  let kept = steps;
  let runs = 0;
  for (let size = Math.ceil(kept.length / 2); size >= 1; ) {
    const before = kept.length;
    for (let start = kept.length - size; start > -size && runs < maxRuns; start -= size) {
      const rest = [...kept.slice(0, Math.max(0, start)), ...kept.slice(start + size)];
      runs += 1;
      if (await fails(rest)) kept = rest;
    }
    if (runs >= maxRuns) break;
    // Steps that were needed may be superfluous without later ones.
    if (size === 1 && kept.length === before) break;
    size = Math.max(1, Math.floor(size / 2));
  }
  return kept;
}
