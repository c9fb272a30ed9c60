import { randomUUID } from 'node:crypto';
import type { TaskEvent } from '../tasks/queue/driver.ts';
import type { NatsLink } from './nats-connection.ts';

/** Tells all nodes what happens to tasks on each of them. */
export interface SharedEvents {
  /** Tells of an event of this node: here at once, elsewhere if it can be reached. */
  note(event: TaskEvent): void;
  stop(): void;
}

/** @param onEvent told of every event, of this node or another */
export function shareEvents(
  { connection, connected }: NatsLink,
  prefix: string,
  onEvent: (event: TaskEvent) => void,
): SharedEvents {
  const subject = `${prefix}.events`;
  const node = randomUUID();
  const subscription = connection.subscribe(subject, {
    callback(error, message) {
      if (error !== null) return;
      const { from, ...event } = message.json<TaskEvent & { from: string }>();
      if (from !== node) onEvent(event as TaskEvent);
    },
  });
  return {
    note(event) {
      onEvent(event);
      // What cannot be said now would wait in memory without a bound, and be old.
      if (connected()) connection.publish(subject, JSON.stringify({ from: node, ...event }));
    },
    stop: () => subscription.unsubscribe(),
  };
}
