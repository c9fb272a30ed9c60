import { setTimeout as delay } from 'node:timers/promises';
import { createInbox, type Msg, type Subscription } from '@nats-io/transport-node';
import { oncePerTurn } from '../../tasks/once-per-turn.ts';
import { CONSUMER_NAME } from './queue-streams.ts';
import type { Stream } from './stream.ts';

const EXPIRES_MS = 5000;
/** Delay after JetStream has refused a pull request, for example during a leader election. */
const RETRY_MS = 250;
const DRAIN_MS = 1000;

/** Status codes of a pull request that ended normally: no messages (404) and request timeout (408). */
const EXPIRED = [404, 408];

export interface PullRequesterOptions {
  tasks: Stream;
  /** Returns how many more messages this node can receive, including messages already requested. */
  room(): number;
  receive(message: Msg): void;
}

/**
 * Requests as many messages from a pull consumer as this node has room for. The client's `consume` is unsuitable,
 * because it requests more messages before earlier ones are settled.
 */
export class PullRequester {
  readonly #options: PullRequesterOptions;
  readonly #stopRenewals: () => void;
  #subscription: Subscription;
  #inbox = '';
  /** Number of requested messages that have not arrived yet. */
  #outstanding = 0;
  /** Time by which JetStream must have answered all pull requests, in milliseconds since the epoch. */
  #deadline = 0;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;
  /** Several pull requests that expire together become one. */
  readonly #repeatExpired = oncePerTurn(() => this.ask());

  constructor(options: PullRequesterOptions) {
    this.#options = options;
    this.#subscription = this.#subscribe();
    // Repeats the pull requests after a reconnect, because JetStream may never answer the earlier requests.
    this.#stopRenewals = options.tasks.link.onUp(() => this.#renew());
  }

  /** Requests as many messages as this node has room for. */
  ask(): void {
    const { tasks, room } = this.#options;
    const { link, name } = tasks;
    const batch = room() - this.#outstanding;
    if (batch <= 0 || this.#stopped || this.#timer !== undefined || !link.up) return;
    this.#outstanding += batch;
    this.#deadline = Date.now() + 2 * EXPIRES_MS;
    const request = JSON.stringify({ batch, expires: EXPIRES_MS * 1_000_000 });
    // If JetStream refuses the request, `#receive` reads the batch size from the reply subject.
    const reply = `${this.#inbox}.${batch}`;
    link.connection.publish(`$JS.API.CONSUMER.MSG.NEXT.${name}.${CONSUMER_NAME}`, request, { reply });
  }

  /** Repeats a pull request that JetStream has not answered in time, otherwise calls `ask`. Called periodically. */
  check(): void {
    if (this.#outstanding > 0 && this.#deadline < Date.now()) this.#renew();
    else this.ask();
  }

  /** Stops requesting messages. Messages already requested are still received until the promise resolves. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#stopRenewals();
    clearTimeout(this.#timer);
    const drained = this.#subscription.drain().catch(() => {});
    await Promise.race([drained, delay(DRAIN_MS, undefined, { ref: false })]);
  }

  /** Abandons all requests, and requests messages with a new inbox. */
  #renew(): void {
    if (this.#stopped || !this.#options.tasks.link.up) return;
    this.#subscription.unsubscribe();
    this.#outstanding = 0;
    this.#subscription = this.#subscribe();
    this.ask();
  }

  #subscribe(): Subscription {
    this.#inbox = createInbox();
    return this.#options.tasks.link.subscribe(`${this.#inbox}.*`, (message) => this.#receive(message));
  }

  #receive(message: Msg): void {
    if (message.reply) {
      this.#outstanding = Math.max(0, this.#outstanding - 1);
      this.#options.receive(message);
      return;
    }
    const unanswered = message.headers?.get('Nats-Pending-Messages') || message.subject.slice(this.#inbox.length + 1);
    this.#outstanding = Math.max(0, this.#outstanding - Number(unanswered));
    if (EXPIRED.includes(message.headers?.code ?? 0)) return void this.#repeatExpired();
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.ask();
    }, RETRY_MS).unref();
  }
}
