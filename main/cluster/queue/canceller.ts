import { setTimeout as delay } from 'node:timers/promises';
import type { StoredMsg } from '@nats-io/jetstream';
import type { Msg, Subscription } from '@nats-io/transport-node';
import { REQUEST_TIMEOUT_MS } from '../nats-link.ts';
import type { QueueParts } from './queue-parts.ts';
import { CONSUMER_NAME } from './queue-streams.ts';
import { token } from './stream.ts';

const ANSWER_WAIT_MS = 1000;
/** Default delay before a node starts a task that another node has asked to cancel. */
export const HOLD_MS = ANSWER_WAIT_MS + 3 * REQUEST_TIMEOUT_MS + 1000;
const MAX_ASKED = 10_000;

/**
 * A node's answer to a request to cancel a task. `running`: the signal of the running handler was aborted. `delayed`:
 * the task's retry or snooze is not due yet. `completed`: the task is completed, but its message is not removed yet.
 */
export type Answer = 'cancelled' | 'running' | 'delayed' | 'completed';

export interface CancellerOptions {
  parts: QueueParts;
  /** Returns undefined at once if this node does not have the message. */
  cancelHere(streamSequence: number): Promise<Answer> | undefined;
  /** Cancels a task whose message awaits delivery to a node. */
  withdraw(id: string, message: StoredMsg): Promise<void>;
}

/**
 * Cancels tasks on any node. The node that has the message decides, because only that node knows whether the task has
 * started. If no node has the message, the asking node cancels the task.
 */
export class Canceller {
  readonly #options: CancellerOptions;
  readonly #subject: string;
  readonly #subscription: Subscription;
  /** Time until which this node must not start a message, in milliseconds since the epoch, by stream sequence. */
  readonly #heldUntil = new Map<number, number>();
  readonly #closing = new AbortController();

  constructor(options: CancellerOptions) {
    const { link } = options.parts;
    this.#options = options;
    this.#subject = `${link.prefix}.cancel`;
    this.#subscription = link.subscribe(this.#subject, (message) => void this.#answer(message));
  }

  /** Cancels a task; see `Queue.cancel`. @throws {Error} if NATS does not respond in time */
  async cancel(id: string): Promise<'cancelled' | 'running' | undefined> {
    const { link, tasks, letters, cancellations, ackWaitMs } = this.#options.parts;
    const begunAt = Date.now();
    for (let asked: number | undefined; ; ) {
      link.checkUp();
      const message = await tasks.last(token(id));
      if (asked !== undefined && message?.seq !== asked)
        return (await cancellations.has(id, asked)) ? 'cancelled' : undefined;
      if (message === null || (await letters.get(id))?.taskSequence === message.seq) return undefined;
      // A node that does not answer within the ack wait has lost the message, because JetStream then redelivers it.
      const isLost = Date.now() - begunAt > ackWaitMs || (asked !== undefined && (await this.#isReturned(id, asked)));
      const answer = asked !== undefined && isLost ? 'nowhere' : await this.#ask(message.seq);
      if (answer === 'cancelled' || answer === 'running') return answer;
      if (answer === 'completed') return undefined;
      if (answer === 'nowhere' || answer === 'delayed') {
        await this.#options.withdraw(id, message);
        return 'cancelled';
      }
      asked = message.seq;
    }
  }

  /** Whether a node has asked to cancel the message, which may therefore already be cancelled. */
  wasAsked(streamSequence: number): boolean {
    return this.#heldUntil.has(streamSequence);
  }

  /** Waits while a message is held back because of a cancellation request. */
  async released(streamSequence: number): Promise<void> {
    const { signal } = this.#closing;
    for (;;) {
      const heldMs = (this.#heldUntil.get(streamSequence) ?? 0) - Date.now();
      if (heldMs <= 0 || signal.aborted) return;
      await delay(heldMs, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  close(): void {
    this.#closing.abort();
    this.#subscription.unsubscribe();
  }

  /** Whether the message was returned to JetStream, and no other node has reported starting it since. */
  async #isReturned(id: string, streamSequence: number): Promise<boolean> {
    const { notes, events } = this.#options.parts;
    const note = (await notes.get(token(id)))?.value;
    if (note?.streamSequence !== streamSequence || note.suspect) return false;
    return note.lastSettledDelivery > 0 && events.runningElsewhere(id) === undefined;
  }

  /** Asks all nodes to cancel a message. Returns `nowhere` if no node has the message, or undefined if none answers. */
  async #ask(streamSequence: number): Promise<Answer | 'nowhere' | undefined> {
    const { link, tasks } = this.#options.parts;
    const deciding = this.#options.cancelHere(streamSequence);
    this.#hold(streamSequence);
    const own = await deciding;
    if (own !== undefined && own !== 'delayed') return own;
    const answer = link.connection.request(this.#subject, String(streamSequence), { timeout: ANSWER_WAIT_MS }).then(
      (message) => message.string() as Answer,
      () => undefined,
    );
    // Read after the cancellation request is sent: a node that receives the task after this read already has the request.
    const { delivered } = await link.manager.consumers.info(tasks.name, CONSUMER_NAME);
    if (delivered.stream_seq < streamSequence) return 'nowhere';
    return own ?? answer;
  }

  async #answer(message: Msg): Promise<void> {
    const streamSequence = Number(message.string());
    if (!Number.isSafeInteger(streamSequence)) return;
    const deciding = this.#options.cancelHere(streamSequence);
    this.#hold(streamSequence);
    // A failed cancellation is not answered, so that the asking node asks again.
    const answer = await deciding?.catch(() => undefined);
    if (answer !== undefined) message.respond(answer);
  }

  #hold(streamSequence: number): void {
    this.#heldUntil.delete(streamSequence);
    this.#heldUntil.set(streamSequence, Date.now() + this.#options.parts.holdMs);
    const [oldest] = this.#heldUntil.keys();
    if (this.#heldUntil.size > MAX_ASKED) this.#heldUntil.delete(oldest as number);
  }
}
