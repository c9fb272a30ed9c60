import { setTimeout as delay } from 'node:timers/promises';
import { createInbox, type Msg, type Subscription } from '@nats-io/transport-node';
import type { NatsLink } from '../nats-link.ts';

/** Expiry of a pull request. */
const EXPIRES_MS = 5000;
/** Delay before the next pull request after a refused one, for example during a leader election. */
const RETRY_MS = 250;
/** Longest wait for requested messages that have not arrived when the requester stops. */
const DRAIN_MS = 1000;

/** Status codes of a pull request that ended normally: 404 no messages, 408 request timeout. */
const EXPIRED = [404, 408];

export interface PullRequesterOptions {
  link: NatsLink;
  stream: string;
  consumer: string;
  /** Returns the number of messages that this node can accept, including those already requested. */
  room(): number;
  receive(message: Msg): void;
}

/**
 * Requests messages from a pull consumer, never more than there is room for. The client library's `consume` cannot be used,
 * because it requests more messages when some are delivered, not when they are settled.
 */
export class PullRequester {
  readonly #options: PullRequesterOptions;
  #subscription: Subscription;
  #inbox = '';
  /** Number of requested messages that have not arrived. */
  #outstanding = 0;
  /** Time by which JetStream must have answered all requests, in milliseconds since the epoch. */
  #deadline = 0;
  #scheduled = false;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: PullRequesterOptions) {
    this.#options = options;
    this.#subscription = this.#subscribe();
  }

  /** Requests as many messages as there is room for. Calls in the same event loop turn share one request. */
  ask(): void {
    if (this.#scheduled || this.#stopped || this.#timer !== undefined) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#request();
    });
  }

  /** Repeats the requests that JetStream has not answered in time. Must be called periodically. */
  check(): void {
    if (this.#outstanding > 0 && this.#deadline < Date.now()) this.renew();
    else this.ask();
  }

  /** Repeats all requests with a new inbox, because requests sent over an earlier connection may never be answered. */
  renew(): void {
    if (this.#stopped || !this.#options.link.up) return;
    this.#subscription.unsubscribe();
    this.#outstanding = 0;
    this.#subscription = this.#subscribe();
    this.ask();
  }

  /** Stops requesting messages. Messages already requested are received until the promise is fulfilled. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    if (this.#options.link.connection.isClosed()) return;
    const drained = this.#subscription.drain().catch(() => {});
    await Promise.race([drained, delay(DRAIN_MS, undefined, { ref: false })]);
  }

  #subscribe(): Subscription {
    this.#inbox = createInbox();
    const callback = (error: Error | null, message: Msg) => {
      if (error === null) this.#receive(message);
    };
    return this.#options.link.connection.subscribe(`${this.#inbox}.*`, { callback });
  }

  #request(): void {
    const { link, stream, consumer, room } = this.#options;
    const batch = room() - this.#outstanding;
    if (batch <= 0 || this.#stopped || !link.up) return;
    this.#outstanding += batch;
    this.#deadline = Date.now() + 2 * EXPIRES_MS;
    const request = JSON.stringify({ batch, expires: EXPIRES_MS * 1_000_000 });
    // The reply subject ends with the number of requested messages, which is read if the request is refused.
    const reply = `${this.#inbox}.${batch}`;
    link.connection.publish(`$JS.API.CONSUMER.MSG.NEXT.${stream}.${consumer}`, request, { reply });
  }

  #receive(message: Msg): void {
    if (message.reply) {
      this.#outstanding = Math.max(0, this.#outstanding - 1);
      this.#options.receive(message);
      return;
    }
    const unanswered = message.headers?.get('Nats-Pending-Messages') || message.subject.slice(this.#inbox.length + 1);
    this.#outstanding = Math.max(0, this.#outstanding - Number(unanswered));
    if (EXPIRED.includes(message.headers?.code ?? 0)) this.ask();
    else this.#retryLater();
  }

  #retryLater(): void {
    if (this.#stopped || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.ask();
    }, RETRY_MS).unref();
  }
}
