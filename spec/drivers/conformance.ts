import type { Queue, TaskEvent } from '../../main/tasks/queue/queue.ts';
import { textMemoryBytes } from '../../main/tasks/queue/text-memory.ts';
import { afterTest } from '../support/cleanup.ts';
import { describeBounds } from './bounds.ts';
import { describeBulk } from './bulk.ts';
import { describeCancelling } from './cancelling.ts';
import { describeClosing } from './closing.ts';
import { describeDeadLetters } from './dead-letters.ts';
import { describeDelivering } from './delivering.ts';
import { describeEvents } from './events.ts';
import { describeFinding } from './finding.ts';
import { describeHistory } from './history.ts';
import { describeIdempotency } from './idempotency.ts';
import type { BytesOf, FreshQueue, QueueBounds, Reopen } from './inbox.ts';
import { describeListing } from './listing.ts';
import { describePausing } from './pausing.ts';
import { describeCounts } from './random-operations.ts';
import { describeSettling } from './settling.ts';

const roomy: QueueBounds = { maxLength: 1000, maxBytes: 100_000, maxKeys: 100 };

/**
 * Defines the conformance specs of a driver.
 *
 * @param create creates an empty queue; called for each test
 * @param reopen opens the queue of a closed driver again; absent if the queue does not outlive its driver
 * @param bytesOf bytes that the driver counts for a message; its memory if absent
 */
export function describeDriver(
  name: string,
  create: (bounds: QueueBounds, onEvent: (event: TaskEvent) => void) => Queue | Promise<Queue>,
  reopen?: Reopen,
  bytesOf: BytesOf = textMemoryBytes,
  randomRuns = 100,
): void {
  const fresh: FreshQueue = async (bounds = {}, onEvent = () => {}) => {
    const queue = await create({ ...roomy, ...bounds }, onEvent);
    afterTest(() => queue.close());
    return queue;
  };

  describe(`${name} as a queue driver`, () => {
    describeDelivering(fresh);
    describeSettling(fresh);
    describeFinding(fresh);
    describeListing(fresh);
    describeEvents(fresh);
    describeCancelling(fresh);
    describeDeadLetters(fresh);
    describeBulk(fresh);
    describeHistory(fresh, reopen);
    describeIdempotency(fresh);
    describeBounds(fresh);
    describeCounts(fresh, bytesOf, randomRuns);
    describePausing(fresh);
    describeClosing(fresh, reopen);
  });
}
