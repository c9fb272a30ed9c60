import { type Advanced, Schedules } from '../schedules.ts';
import { type Message, QueueFull } from '../task-store.ts';
import { lockLimits } from './counts.ts';
import type { BoundStatement, PostgresDatabase, Query } from './database.ts';
import type { Room } from './submissions.ts';

export interface SchedulesOptions {
  writes: PostgresDatabase;
  reads: PostgresDatabase;
  /** Runs operations one after another, because they change the same row of the counts. */
  operate: <T>(run: () => Promise<T>) => Promise<T>;
  now: () => number;
  /** Returns the statement that publishes a message. */
  publish: (message: Message) => BoundStatement;
}

export function postgresSchedules({ writes, reads, operate, now, publish }: SchedulesOptions): Schedules {
  return new Schedules({
    read: (statement, values) => reads.query(statement, values),
    write: (statement, values) => operate(() => writes.query(statement, values)),
    async fire(advance, values, message, onAccepted) {
      const run = async (query: Query) => {
        await query(...lockLimits(now(), message && [message.action]));
        const [row] = await query<Advanced>(advance, values);
        if (message === undefined || !row?.isFired) return row;
        const [room] = await query<Room>(...publish(message));
        if (room?.ids.length !== 0) return row;
        return new QueueFull(`the queue holds ${room.length} messages, ${room.bytes} bytes`);
      };
      const row = await operate(() => writes.transaction(run, { isKept: (row) => !(row instanceof QueueFull) }));
      if (row instanceof QueueFull) throw row;
      if (row?.isFired) onAccepted();
      return row;
    },
  });
}
