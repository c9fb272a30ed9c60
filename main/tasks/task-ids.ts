import type { Random } from '../../workers/shared/clock.ts';

/** Number of consecutive ids with the same first four digits. */
const GROUP = 64;

/**
 * Returns a function that creates task ids (UUID v4). Consecutive ids are neighbours in an index on ids, so rows that
 * are committed together change one page of the index instead of a page each. 106 random bits remain within a group.
 */
export function taskIds({ uuid }: Pick<Random, 'uuid'>): () => string {
  let prefix = '';
  let left = 0;
  return () => {
    const id = uuid();
    if (left === 0) {
      prefix = id.slice(0, 4);
      left = GROUP;
    }
    left -= 1;
    return prefix + id.slice(4);
  };
}
