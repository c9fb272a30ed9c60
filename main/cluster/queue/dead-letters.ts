import { TimeoutError } from '@nats-io/transport-node';
import { actionStart } from '../../../workers/parse-submission.ts';
import type {
  BulkResult,
  DeadLetterFilter,
  DeadLetterOperations,
  DeadLetterReasons,
  DeadLetterSelection,
  ListedDeadLetter,
} from '../../tasks/queue/dead-letter-operations.ts';
import { subjectOf } from '../../tasks/queue/event-subject.ts';
import { QueueFull } from '../../tasks/queue/queue.ts';
import { concurrently } from './concurrently.ts';
import { DeadLetterListing } from './dead-letter-listing.ts';
import type { LetterHead } from './dead-letter-store.ts';
import type { NatsPublisher } from './publisher.ts';
import type { QueueParts } from './queue-parts.ts';
import { token } from './stream.ts';

const MAX_AT_ONCE = 32;

/** Lists, redrives and purges the dead letters of all nodes. */
export class NatsDeadLetters implements DeadLetterOperations {
  readonly #parts: QueueParts;
  readonly #publisher: NatsPublisher;
  readonly #listing: DeadLetterListing;
  readonly #checkOpen: () => void;
  readonly #redriving = new Map<string, Promise<unknown>>();

  /** @param checkOpen throws if the queue is closed or NATS is disconnected */
  constructor(parts: QueueParts, publisher: NatsPublisher, checkOpen: () => void) {
    this.#parts = parts;
    this.#checkOpen = checkOpen;
    this.#publisher = publisher;
    this.#listing = new DeadLetterListing(parts.letters);
  }

  async newestDeadLetters(limit: number, filter: DeadLetterFilter = {}): Promise<readonly ListedDeadLetter[]> {
    this.#parts.link.checkUp();
    return this.#listing.newest(limit, filter);
  }

  async deadLetterReasons(): Promise<DeadLetterReasons> {
    this.#parts.link.checkUp();
    return this.#listing.reasons();
  }

  async redrive(id: string): Promise<boolean> {
    const earlier = this.#redriving.get(id)?.catch(() => {});
    const redriving = this.#parts.counts.during(async () => {
      await earlier;
      return this.#redrive(id);
    });
    this.#redriving.set(id, redriving);
    try {
      return await redriving;
    } finally {
      if (this.#redriving.get(id) === redriving) this.#redriving.delete(id);
    }
  }

  async redriveAll(selection: DeadLetterSelection): Promise<BulkResult> {
    this.#checkOpen();
    const result = { count: 0, remaining: 0 };
    let isFull = false;
    let failure: unknown;
    const whenFailed = (error: unknown): undefined => {
      // Throws if NATS is disconnected or the queue is closed, because each remaining dead letter would fail.
      this.#checkOpen();
      if (error instanceof TimeoutError) throw error;
      if (error instanceof QueueFull) isFull = true;
      else failure ??= error;
    };
    await concurrently(await this.#listing.select(selection), MAX_AT_ONCE, async ({ id }) => {
      const isRedriven = isFull ? undefined : await this.redrive(id).catch(whenFailed);
      if (isRedriven) result.count += 1;
      if (isRedriven === undefined) result.remaining += 1;
    });
    if (result.count === 0 && !isFull && failure !== undefined) throw failure;
    return result;
  }

  /** If the task is being redriven, waits until the redrive has succeeded or failed. */
  async settled(id: string): Promise<void> {
    await this.#redriving.get(id)?.catch(() => {});
  }

  async purge(id: string): Promise<boolean> {
    this.#parts.link.checkUp();
    const stored = await this.#parts.letters.get(id);
    if (stored === undefined) return false;
    return this.#remove({ id, action: actionStart(stored.letter.body), streamSequence: stored.streamSequence });
  }

  async purgeAll(selection: DeadLetterSelection): Promise<BulkResult> {
    this.#parts.link.checkUp();
    let count = 0;
    await concurrently(await this.#listing.select(selection), MAX_AT_ONCE, async (head) => {
      if (await this.#remove(head)) count += 1;
    });
    return { count, remaining: 0 };
  }

  #remove({ id, action, streamSequence }: Pick<LetterHead, 'id' | 'action' | 'streamSequence'>): Promise<boolean> {
    const { counts, letters, events } = this.#parts;
    return counts.during(async () => {
      const isRemoved = await letters.remove(streamSequence);
      if (isRemoved) {
        counts.removed(false);
        events.tell({ event: 'purged', ...subjectOf({ id, action }) });
      }
      return isRemoved;
    });
  }

  // Stores the message before removing the dead letter, so that the task is never lost. If several nodes redrive a dead
  // letter at once, JetStream stores one message and reports a duplicate to the other nodes.
  async #redrive(id: string): Promise<boolean> {
    this.#checkOpen();
    const { letters, counts } = this.#parts;
    const stored = await letters.get(id);
    if (stored === undefined) return false;
    const { letter, streamSequence, taskSequence } = stored;
    const { body, sequence, acceptedAt } = letter;
    const messageId = `${token(id)} ${taskSequence}`;
    const { duplicate } = await this.#publisher.publish({ id, body }, { messageId, sequence, acceptedAt });
    const removed = await letters.remove(streamSequence);
    if (removed) counts.removed(true);
    return removed || !duplicate;
  }
}
