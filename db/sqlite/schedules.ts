import { type Advanced, Schedules, type Value } from '../schedules.ts';
import type { Message, QueueFull } from '../task-store.ts';
import type { Database } from './database.ts';

export interface SchedulesOptions {
  /** Runs `run` in a transaction. Resolves once it is on disk. */
  write: <T>(run: () => T | QueueFull, onWritten?: (result: T) => void) => Promise<T>;
  /** Inserts a message in the present transaction. */
  insert: (message: Message) => QueueFull | undefined;
}

export function sqliteSchedules(database: Database, { write, insert }: SchedulesOptions): Schedules {
  const all = <Row>(statement: string, values: readonly Value[] = []) =>
    database.all<Row>(statement.replaceAll('$', '?'), ...values);
  return new Schedules({
    read: all,
    write: (statement, values) => write(() => all(statement, values)),
    fire(advance, values, message, onAccepted) {
      const run = () => {
        database.run('SAVEPOINT firing');
        const [row] = all<Advanced>(advance, values);
        const full = message && row?.isFired ? insert(message) : undefined;
        // The transaction has other writes, too.
        if (full !== undefined) database.run('ROLLBACK TO firing');
        database.run('RELEASE firing');
        return full ?? row;
      };
      return write<Advanced | undefined>(run, (row) => row?.isFired && onAccepted());
    },
  });
}
