import { inspect } from 'node:util';
import { parentPort, threadId, workerData } from 'node:worker_threads';
import { PermanentError } from './actions.ts';
import {
  AttemptField,
  type EarlySettlement,
  type MainToPool,
  type PoolThreadData,
  type Settlement,
  type TaskOutcome,
} from './messages.ts';

/** What a handler can do about its delivery; the first call counts, later ones do nothing. */
export interface Delivery {
  /** The task's place in the order of arrival, where it has one. */
  readonly arrival: number | null;
  /** Acknowledges at once, before the handler ends. */
  ack(): void;
  /** Acknowledges negatively at once, before the handler ends. */
  nack(): void;
}

/**
 * Works one queued task off. `body` is the JSON text of the queued task message. A normal return
 * acknowledges the delivery, a raised error acknowledges it negatively, a {@link PermanentError} for good.
 */
export type TaskHandler = (body: string, delivery: Delivery) => void | Promise<void>;

/** Makes of a handler the function that a pool thread runs for each message. It never throws. */
export function poolFunction(handler: TaskHandler): (message: MainToPool) => Promise<TaskOutcome> {
  return async (message) => {
    if ('selfTest' in message) return { ended: 'returned' };
    noteBeginning(message.slot);
    let settled: Settlement | undefined;
    const settle = (settlement: Settlement) => {
      if (settled !== undefined) return;
      settled = settlement;
      parentPort?.postMessage({ delivery: message.delivery, settled } satisfies EarlySettlement);
    };
    try {
      await handler(message.body, {
        arrival: message.arrival,
        ack: () => settle('ack'),
        nack: () => settle('nack'),
      });
      return { ended: 'returned', ...(settled && { settled }) };
    } catch (error) {
      const reason = describe(error);
      return { ended: 'raised', ...(settled && { settled }), reason, permanent: error instanceof PermanentError };
    }
  };
}

const shared = (workerData as Partial<PoolThreadData> | null)?.attempts;
const attempts = shared && new Float64Array(shared);

/** Before anything can hang: who finds the time of the beginning finds the thread, too. */
function noteBeginning(slot: number): void {
  if (attempts === undefined) return;
  const first = slot * AttemptField.count;
  attempts[first + AttemptField.threadId] = threadId;
  attempts[first + AttemptField.beganAt] = Number(process.hrtime.bigint()) / 1e6;
}

/** A text for anything that can be thrown. */
function describe(thrown: unknown): string {
  try {
    const text: unknown = thrown instanceof Error ? thrown.message : thrown;
    return typeof text === 'string' ? text : inspect(text, { depth: 1 });
  } catch {
    return 'an error that cannot be read';
  }
}
