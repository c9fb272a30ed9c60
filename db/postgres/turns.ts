import type { Query } from './database.ts';

/** The number of an advisory lock, from its purpose: another one in every schema. */
const LOCK = "hashtextextended('ticker-and-tasks ' || current_schema() || ' ' || $1, 0)";

/** Waits until no other node does the same, and keeps it from that until the end of the transaction. */
export async function takeTurn(query: Query, purpose: string): Promise<void> {
  await query({ text: `SELECT pg_advisory_xact_lock(${LOCK})` }, [purpose]);
}

/** Runs `work`, a transaction or several, unless another node does the same. @returns undefined where one does */
export async function ifAlone<T>(query: Query, purpose: string, work: () => Promise<T>): Promise<T | undefined> {
  const [turn] = await query<{ mine: boolean }>({ text: `SELECT pg_try_advisory_lock(${LOCK}) AS mine` }, [purpose]);
  if (turn?.mine !== true) return undefined;
  const result = await work();
  await query({ text: `SELECT pg_advisory_unlock(${LOCK})` }, [purpose]);
  return result;
}
