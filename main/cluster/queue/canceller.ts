import { setTimeout as delay } from 'node:timers/promises';
import type { StoredMsg } from '@nats-io/jetstream';
import type { Msg, Subscription } from '@nats-io/transport-node';
import { REQUEST_TIMEOUT_MS } from '../nats-link.ts';
import type { QueueParts } from './queue-parts.ts';
import { CONSUMER_NAME } from './queue-streams.ts';
import { token } from './stream.ts';

/** Longest wait for the answer of the node that has a message. */
const ANSWER_WAIT_MS = 1000;
/**
 * Default time for which a node does not start a task after another node has asked about it. Covers the wait for an answer and three
 * requests, after which the other node has recorded the cancellation or asks again.
 */
export const HOLD_MS = ANSWER_WAIT_MS + 3 * REQUEST_TIMEOUT_MS + 1000;
/** Maximum number of messages remembered as asked about. One more evicts the oldest. */
const MAX_ASKED = 10_000;

/**
 * Answer of a node to a request to cancel a message: the node had it and has cancelled it, the node runs it and has aborted its signal,
 * the node's retry or snooze of it is not due yet, or the node has completed it and its ack is not confirmed.
 */
export type Answer = 'cancelled' | 'running' | 'delayed' | 'completed';

export interface CancellerOptions {
  parts: QueueParts;
  /** Cancels a message by its stream sequence. Returns undefined at once if this node does not have the message. */
  cancelHere(streamSequence: number): Promise<Answer> | undefined;
  /** Cancels a message that no node has. */
  withdraw(id: string, message: StoredMsg): Promise<void>;
}

/**
 * Cancels tasks wherever their messages are. The node that has a message decides, because only that node knows whether the task has
 * started. All other nodes hold back the message if it is delivered to them meanwhile. So once it is certain that no node has the
 * message, the asking node can cancel it itself.
 */
export class Canceller {
  readonly #options: CancellerOptions;
  readonly #subject: string;
  readonly #subscription: Subscription;
  /** Time until which this node holds back a message, by stream sequence, in milliseconds since the epoch. */
  readonly #heldUntil = new Map<number, number>();
  readonly #closing = new AbortController();

  constructor(options: CancellerOptions) {
    const { link } = options.parts;
    this.#options = options;
    this.#subject = `${link.prefix}.cancel`;
    this.#subscription = link.subscribe(this.#subject, (message) => void this.#answer(message));
  }

  /**
   * Cancels a task; see `Queue.cancel`. Takes up to an ack wait longer if the node that had the message has died.
   *
   * @throws {Error} if NATS does not respond in time; if the cancellation was recorded nevertheless, it takes effect
   */
  async cancel(id: string): Promise<'cancelled' | 'running' | undefined> {
    const { link, tasks, letters, cancellations, ackWaitMs } = this.#options.parts;
    const begunAt = Date.now();
    for (let asked: number | undefined; ; ) {
      link.checkUp();
      const message = await tasks.last(token(id));
      if (asked !== undefined && message?.seq !== asked)
        return (await cancellations.has(id, asked)) ? 'cancelled' : undefined;
      if (message === null || (await letters.get(id))?.taskSequence === message.seq) return undefined;
      // A node that has not answered during an ack wait has lost its delivery, because JetStream redelivers the message then.
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

  /** Whether a node has asked about a message, so that its cancellation may be recorded. */
  wasAsked(streamSequence: number): boolean {
    return this.#heldUntil.has(streamSequence);
  }

  /** Waits until this node may start a message that another node has asked about. */
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

  /** Whether a node has returned the message for redelivery, and no other node is known to have started it since. */
  async #isReturned(id: string, streamSequence: number): Promise<boolean> {
    const { notes, events } = this.#options.parts;
    const note = (await notes.get(token(id)))?.value;
    if (note?.streamSequence !== streamSequence || note.suspect) return false;
    return note.lastSettledDelivery > 0 && events.runningElsewhere(id) === undefined;
  }

  /** Asks all nodes about a message. @returns undefined if none answers in time although the message was delivered */
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
    // The server receives this request after the question. A later delivery therefore reaches its node after the question.
    const { delivered } = await link.manager.consumers.info(tasks.name, CONSUMER_NAME);
    if (delivered.stream_seq < streamSequence) return 'nowhere';
    return own ?? answer;
  }

  /** Answers another node, unless this node does not have the message. */
  async #answer(message: Msg): Promise<void> {
    const streamSequence = Number(message.string());
    if (!Number.isSafeInteger(streamSequence)) return;
    const deciding = this.#options.cancelHere(streamSequence);
    this.#hold(streamSequence);
    // Without an answer, the other node asks again.
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
