/** Something that is measured, of the product and of those beside it, in turn. */
export interface Figure {
  name: string;
  /** Measures each contender once; the product is called `product`, with other settings or sizes `product, …`. */
  contenders: Readonly<Record<string, () => Promise<Record<string, number>>>>;
  /** What is read off a measurement, each with what is asked of it. */
  readings: readonly Reading[];
}

/** One number of a measurement. */
export interface Reading {
  /** Its name in the measurement. */
  key: string;
  name: string;
  /** Absent for counts and ratios. */
  unit?: string;
  /** Whose number it is; the product's if absent. */
  of?: string;
  /** The contender that it is compared with; none if the number speaks for itself. */
  beside?: string;
  /** Bound of the ratio to that contender, or of the number itself. */
  target?: Target;
}

/** `within` bounds how far a ratio is from 1, in either direction. */
export type Target = { atMost: number } | { atLeast: number } | { within: number };

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] as number) + (sorted[Math.ceil(middle)] as number)) / 2;
}
