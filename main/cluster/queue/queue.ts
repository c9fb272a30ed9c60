import { totalOf } from '../../tasks/queue/listing.ts';
import type {
  KeyedSubmission,
  ListedState,
  Message,
  OpenQueue,
  Progress,
  Queue,
  QueueBounds,
  QueueCounts,
  TaskEvent,
  TaskListing,
} from '../../tasks/queue/queue.ts';
import type { NatsLink } from '../nats-link.ts';
import { HOLD_MS } from './canceller.ts';
import { NatsConsumer } from './consumer.ts';
import { NatsCounts } from './counts.ts';
import { NatsDeadLetters } from './dead-letters.ts';
import { NatsEvents } from './events.ts';
import { acceptedAtOf, inFlightState, textOf } from './pending-delivery.ts';
import { publishOnce } from './publish-once.ts';
import { ACK_WAIT_MS, openStreams } from './queue-streams.ts';
import { token } from './stream.ts';
import { NatsTaskLists } from './task-lists.ts';

const REFRESH_MS = 1000;

export interface NatsQueueOptions {
  bounds: QueueBounds;
  ackWaitMs?: number;
  holdMs?: number;
  /** Called when a message changes state on any node. */
  onEvent?: (event: TaskEvent) => void;
}

/**
 * Opens a queue with all of its state in JetStream. Closing the queue does not close `link`.
 *
 * @throws {Error} if NATS rejects the settings
 */
export async function openNatsQueue(
  link: NatsLink,
  { bounds, ackWaitMs = ACK_WAIT_MS, holdMs = HOLD_MS, onEvent = () => {} }: NatsQueueOptions,
): Promise<OpenQueue> {
  const streams = await openStreams(link, bounds, ackWaitMs);
  const [counts, events] = [new NatsCounts(streams), new NatsEvents(link, onEvent)];
  const queue = new NatsQueue({ ...streams, link, bounds, ackWaitMs, holdMs, counts, events });
  await queue.refresh();
  return {
    queue,
    close: () => queue.close().then(() => true),
    serverProblem: () => link.problem(),
  };
}

class NatsQueue extends NatsConsumer implements Queue {
  readonly durable = true;
  protected readonly deadLettering = new NatsDeadLetters(this.parts, this.publisher, () => this.#checkOpen());
  readonly #lists = new NatsTaskLists(this.parts, this.deliveries);
  readonly #refreshTimer = setInterval(() => void this.refresh().catch(() => {}), REFRESH_MS).unref();

  /** @throws {Error} if JetStream does not respond */
  async refresh(): Promise<void> {
    const { link, counts, events, pauses } = this.parts;
    if (!link.up) return;
    const runningElsewhere = () => (this.paused ? events.elsewhereCount : Infinity);
    const [isPaused] = await Promise.all([
      pauses.read(),
      counts.refresh(() => this.deliveries.own(), runningElsewhere),
    ]);
    if (isPaused !== undefined && !this.isClosed) this.setPaused(isPaused);
  }

  async publish(message: Message, keyed?: KeyedSubmission): Promise<string> {
    this.#checkOpen();
    if (keyed === undefined) {
      await this.publisher.publish(message);
      return message.id;
    }
    return publishOnce(this.parts.keys, keyed, message.id, async (messageId, id) => {
      const { duplicate, seq } = await this.publisher.publish(keyed.createMessage(id), { messageId });
      return duplicate ? this.publisher.idAt(seq) : id;
    });
  }

  async find(id: string): Promise<Progress | undefined> {
    this.parts.link.checkUp();
    const { notes, events } = this.parts;
    await this.deadLettering.settled(id);
    const pending = this.deliveries.find(id);
    const ownHistory = pending?.note.history;
    if (pending?.isRunning) {
      const { body, acceptedAt } = pending;
      return { ...inFlightState(pending), body, acceptedAt, history: ownHistory ?? [] };
    }
    const { message, stored } = await this.#read(id);
    // A dead letter is stored before its message is removed, so for a moment both exist.
    if (message !== null && stored?.taskSequence !== message.seq) {
      const found = await notes.get(token(id));
      // A delivery state with a lower stream sequence is from before a redrive.
      const note = found === undefined || found.value.streamSequence < message.seq ? undefined : found.value;
      const submitted = {
        body: textOf(message.data),
        acceptedAt: acceptedAtOf(message.header, message.time.getTime()),
        history: ownHistory ?? note?.history ?? [],
      };
      const elsewhere = events.runningElsewhere(id);
      if (pending === undefined && elsewhere !== undefined) return { state: 'running', ...elsewhere, ...submitted };
      const isQueued = pending !== undefined || note === undefined || note.dueAt <= Date.now();
      if (isQueued) return { state: 'queued', ...submitted };
      const { attempts, reason, dueAt } = note;
      return { state: 'retrying', attempts, reason, dueAt, ...submitted };
    }
    return stored && { state: 'failed', letter: stored.letter };
  }

  /** Reads the task's message and its dead letter, of which other nodes can create or remove either at any time. */
  async #read(id: string) {
    const { tasks, letters } = this.parts;
    // Read before the dead letter, because a discard stores the dead letter before it removes the message.
    const message = await tasks.last(token(id));
    const stored = await letters.get(id);
    // A redrive stores the message before it removes the dead letter, so the message may be new.
    const isMissing = message === null && stored === undefined;
    return { message: isMissing ? await tasks.last(token(id)) : message, stored };
  }

  async cancel(id: string): Promise<'cancelled' | 'running' | undefined> {
    this.#checkOpen();
    await this.deadLettering.settled(id);
    return this.canceller.cancel(id);
  }

  async listTasks(state: ListedState, admit: (bytes: number) => Promise<void>): Promise<TaskListing> {
    this.parts.link.checkUp();
    return { tasks: await this.#lists.list(state, admit), total: totalOf(state, this.counts()) };
  }

  counts(): QueueCounts {
    return this.parts.counts.counts(this.deliveries.own());
  }

  oldest(): number | undefined {
    return this.parts.counts.oldest(this.deliveries.unsettled());
  }

  override async close(): Promise<void> {
    if (this.isClosed) return;
    clearInterval(this.#refreshTimer);
    await super.close();
    this.parts.events.close();
  }

  #checkOpen(): void {
    if (this.isClosed) throw new Error('the queue is closed');
    this.parts.link.checkUp();
  }
}
