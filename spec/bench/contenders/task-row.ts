/** The work that the peers do for a task: the product's built-in action, and a row of the product's table `tasks`. */
import { perform } from '../../../workers/tasks/actions.ts';

export type Task = { id: string; action: string; data: Readonly<Record<string, unknown>>; created_at: number };

export const COLUMNS = 'id, payload, status, result, created_at, processed_at';

/** `INSERT` for the values that {@link processTask} returns. */
export const POSTGRES_INSERT = `INSERT INTO tasks (${COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)`;

/** Runs the action of a task and returns its row, in the order of {@link COLUMNS}. */
export function processTask({ id, action, data, created_at }: Task): (string | number)[] {
  const result = JSON.stringify({ output: perform(action, data) });
  const processedAt = Math.floor(Date.now() / 1000);
  return [id, JSON.stringify({ id, action, data, created_at }), 'completed', result, created_at, processedAt];
}
