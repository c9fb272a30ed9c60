import type { Consumer, DeadLetter, Delivery, QueueDriver, TaskEvent, Verdict } from '../../main/tasks/queue/driver.ts';
import { afterTest } from '../support/cleanup.ts';

export interface QueueBounds {
  maxLength: number;
  maxBytes: number;
  maxKeys: number;
}

/** Makes an empty queue that is closed after the test, roomy where no bound is given. */
export type FreshQueue = (bounds?: Partial<QueueBounds>, onEvent?: (event: TaskEvent) => void) => Promise<QueueDriver>;

/** Number of bytes that a driver counts for an unsettled message. */
export type BytesOf = (message: { body: string; reason: string | null }) => number;

/** Opens the queue of a closed driver again, until the test ends. */
export type Reopen = (closed: QueueDriver) => Promise<QueueDriver>;

/** A consumer of a queue that keeps what it receives until it is asked for. */
export interface Inbox {
  /** The next delivery that was not asked for yet. */
  next(): Promise<Delivery>;
  /** The next `count` of them. */
  take(count: number): Promise<Delivery[]>;
  /** How many came so far. */
  received(): number;
  consumer: Consumer;
}

export function openInbox(queue: QueueDriver, prefetch: number): Inbox {
  const unread: Delivery[] = [];
  let received = 0;
  let wake = Promise.withResolvers<void>();
  const consumer = queue.consume(prefetch, (delivery) => {
    received += 1;
    unread.push(delivery);
    wake.resolve();
    wake = Promise.withResolvers();
  });
  afterTest(() => consumer.stop());
  const next = async (): Promise<Delivery> => {
    for (;;) {
      const delivery = unread.shift();
      if (delivery !== undefined) return delivery;
      await wake.promise;
    }
  };
  const take = async (count: number): Promise<Delivery[]> => {
    const deliveries: Delivery[] = [];
    while (deliveries.length < count) deliveries.push(await next());
    return deliveries;
  };
  return { next, take, received: () => received, consumer };
}

/** Publishes messages with these ids, one after the other; each body is its id. */
export async function publishAll(queue: QueueDriver, ids: Iterable<string>): Promise<void> {
  for (const id of ids) await queue.publish({ id, body: id });
}

export function idsOf(deliveries: Delivery[]): string[] {
  return deliveries.map(({ message }) => message.id);
}

export function retry(delayMs = 0, crashed = false): Verdict {
  return { verdict: 'retry', delayMs, reason: 'it failed', crashed };
}

/** All dead letters, oldest first. */
export async function lettersOf(queue: QueueDriver): Promise<DeadLetter[]> {
  const listed = await queue.newestDeadLetters(Number.POSITIVE_INFINITY);
  const letters = await Promise.all(listed.map((letter) => letter.read()));
  return letters.filter((letter) => letter !== undefined).reverse();
}
