import { afterTest } from './cleanup.ts';

/** Returns a function that returns the number of event-loop turns so far. Counting stops after the test. */
export function countTurns(): () => number {
  let turns = 0;
  let watching = true;
  const count = () => {
    turns++;
    if (watching) setImmediate(count);
  };
  count();
  afterTest(() => {
    watching = false;
  });
  return () => turns;
}
