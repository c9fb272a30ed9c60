/** What several runs of one contender gave. */
export interface Sample {
  values: number[];
  median: number;
  /** The largest value less the smallest, as a share of the median. */
  spread: number;
}

export function sample(values: number[]): Sample {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = (sorted.length - 1) / 2;
  const median = ((sorted[Math.floor(middle)] as number) + (sorted[Math.ceil(middle)] as number)) / 2;
  const spread = median === 0 ? 0 : ((sorted.at(-1) as number) - (sorted[0] as number)) / median;
  return { values, median, spread };
}
