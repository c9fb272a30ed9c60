import { afterTest } from './cleanup.ts';

/** Returns a function that returns the number of event-loop turns so far. Counting stops after the test. */
export function countTurns(): () => number {
  let turns = 0;
  let next: NodeJS.Immediate;
  const count = () => {
    turns++;
    next = setImmediate(count);
  };
  count();
  afterTest(() => clearImmediate(next));
  return () => turns;
}
