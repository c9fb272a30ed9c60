import type {
  DeadLetter,
  Delivery,
  KeyedSubmission,
  Queue,
  Settlement,
  SettlementOf,
  TaskEvent,
} from '../../main/tasks/queue/queue.ts';
import { afterTest } from '../support/cleanup.ts';

export interface QueueBounds {
  maxLength: number;
  maxBytes: number;
  maxKeys: number;
}

/** Opens an empty queue that is closed after the test. A bound that is not given is generous. */
export type FreshQueue = (bounds?: Partial<QueueBounds>, onEvent?: (event: TaskEvent) => void) => Promise<Queue>;

/** Number of bytes that a driver counts for an unsettled message. */
export type BytesOf = (message: { body: string; reason: string | null }) => number;

/** Opens the queue of a closed driver again. It is closed after the test. */
export type Reopen = (closed: Queue) => Promise<Queue>;

/** An unsettled delivery. */
export interface Received extends Delivery {
  /** The delivery as the queue knows it. */
  delivery: Delivery;
  ack(): Promise<void>;
  settle(settlement: Settlement): Promise<void>;
  release(): Promise<void>;
  markRunning(): Promise<void>;
}

/** Takes deliveries from a queue only on request. */
export interface Inbox {
  next(): Promise<Received>;
  /** Waits for the next `count` deliveries. */
  take(count: number): Promise<Received[]>;
  /** Takes at most `count` deliveries without waiting. */
  takeReady(count: number): Promise<Received[]>;
  stop(): void;
}

export function openInbox(queue: Queue): Inbox {
  let ready = Promise.withResolvers<void>();
  const stop = queue.onReady(() => {
    ready.resolve();
    ready = Promise.withResolvers();
  });
  afterTest(stop);
  const takeReady = async (count: number) => (await queue.take(count)).map((delivery) => received(queue, delivery));
  const take = async (count: number): Promise<Received[]> => {
    const deliveries: Received[] = [];
    for (;;) {
      const more = ready.promise;
      deliveries.push(...(await takeReady(count - deliveries.length)));
      if (deliveries.length === count) return deliveries;
      await more;
    }
  };
  const next = async () => (await take(1))[0] as Received;
  return { next, take, takeReady, stop };
}

function received(queue: Queue, delivery: Delivery): Received {
  return {
    ...delivery,
    delivery,
    ack: () => queue.settle(delivery, { kind: 'ack' }),
    settle: (settlement) => queue.settle(delivery, settlement),
    release: () => queue.settle(delivery, { kind: 'release' }),
    markRunning: () => queue.markRunning(delivery),
  };
}

/** Publishes messages with these ids, one after another. Each body equals its id. */
export async function publishAll(queue: Queue, ids: Iterable<string>): Promise<void> {
  for (const id of ids) await queue.publish({ id, body: id });
}

/** Returns a submission with an idempotency key. The body of its message equals the message's id. */
export function keyed(key: string, fingerprint = 'x'): KeyedSubmission {
  return { key, fingerprint, createMessage: (id) => ({ id, body: id }) };
}

/** Returns all dead letters, oldest first. */
export async function lettersOf(queue: Queue): Promise<DeadLetter[]> {
  const listed = await queue.newestDeadLetters(Number.POSITIVE_INFINITY);
  const letters = await Promise.all(listed.map((letter) => letter.read()));
  return letters.filter((letter) => letter !== undefined).reverse();
}

export function idsOf(deliveries: Delivery[]): string[] {
  return deliveries.map(({ message }) => message.id);
}

export function retry(delayMs = 0, failure: 'transient' | 'crash' = 'transient'): SettlementOf<'retry'> {
  return { kind: 'retry', delayMs, reason: 'it failed', failure };
}

export function discard(reason = 'no', attempts = 1): SettlementOf<'discard'> {
  return { kind: 'discard', attempts, reason, failure: 'permanent' };
}
