import { afterTest } from './cleanup.ts';

/** Returns a function that tells how many turns the event loop has made, until the end of the test. */
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
