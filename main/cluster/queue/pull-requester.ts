import { createInbox, type Msg, type Subscription } from '@nats-io/transport-node';
import type { NatsLink } from '../nats-link.ts';

/** How long a request for messages stands, until it is made anew. */
const EXPIRES_MS = 5000;

/** Wait after a request that was refused: the stream's leader is being elected, say. */
const REFUSED_WAIT_MS = 250;

/** Longest wait for what is on its way when no more is wanted. */
const DRAIN_MS = 1000;

/** The request's time was over, or there was nothing. */
const EXPIRED = [404, 408];

/** A message as JetStream delivered it. */
export interface Arrival {
  /** Where to say what became of it. */
  reply: string;
  /** Its number in the stream. */
  streamSequence: number;
  /** How often it was delivered, this time included. */
  deliveries: number;
  /** When it was stored, in milliseconds since the epoch. */
  storedAt: number;
  message: Msg;
}

export interface IntakeOptions {
  link: NatsLink;
  stream: string;
  consumer: string;
  /** How many more messages are wanted, without regard to those that were asked for. */
  room(): number;
  receive(arrival: Arrival): void;
}

/**
 * Asks a consumer for messages, never for more than there is room for. JetStream's own client asks ahead, as messages
 * are delivered and not as they are settled.
 */
export class PullRequester {
  readonly #options: IntakeOptions;
  #subscription: Subscription;
  #inbox = '';
  /** Messages that were asked for and have not come. */
  #asked = 0;
  /** When none of these can come any more. */
  #until = 0;
  #scheduled = false;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: IntakeOptions) {
    this.#options = options;
    this.#subscription = this.#subscribe();
  }

  /** Asks for what there is room for, once for all that happens in a turn. */
  ask(): void {
    if (this.#scheduled || this.#stopped || this.#timer !== undefined) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#request();
    });
  }

  /** Asks again where JetStream has not answered in time; to be called now and then. */
  check(): void {
    if (this.#asked > 0 && this.#until < Date.now()) this.renew();
    else this.ask();
  }

  /** Begins anew: what was asked for on an earlier connection may come, or not. */
  renew(): void {
    if (this.#stopped || !this.#options.link.up) return;
    this.#subscription.unsubscribe();
    this.#asked = 0;
    this.#subscription = this.#subscribe();
    this.ask();
  }

  /** Asks for nothing more; what is on its way is received until the promise is fulfilled. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, DRAIN_MS);
    });
    const drained = this.#options.link.connection.isClosed() ? undefined : this.#subscription.drain();
    await Promise.race([drained?.catch(() => {}), late]);
    clearTimeout(timer);
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
    const batch = room() - this.#asked;
    if (batch <= 0 || this.#stopped || !link.up) return;
    this.#asked += batch;
    this.#until = Date.now() + 2 * EXPIRES_MS;
    const request = JSON.stringify({ batch, expires: EXPIRES_MS * 1_000_000 });
    // The answer to a request that is refused comes to this address, and names the number.
    const reply = `${this.#inbox}.${batch}`;
    link.connection.publish(`$JS.API.CONSUMER.MSG.NEXT.${stream}.${consumer}`, request, { reply });
  }

  #receive(message: Msg): void {
    if (message.reply) {
      this.#asked = Math.max(0, this.#asked - 1);
      this.#options.receive(arrival(message, message.reply));
      return;
    }
    const unanswered = message.headers?.get('Nats-Pending-Messages') || message.subject.slice(this.#inbox.length + 1);
    this.#asked = Math.max(0, this.#asked - Number(unanswered));
    if (EXPIRED.includes(message.headers?.code ?? 0)) this.ask();
    else this.#askLater();
  }

  #askLater(): void {
    if (this.#stopped || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.ask();
    }, REFUSED_WAIT_MS).unref();
  }
}

/** `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<deliveries>.<place>.<delivery>.<nanoseconds>.<pending>[.<random>]` */
function arrival(message: Msg, reply: string): Arrival {
  const tokens = reply.split('.');
  const [deliveries, streamSequence, , nanos] = tokens.slice(tokens.length === 9 ? 4 : 6).map(Number) as [
    number,
    number,
    number,
    number,
  ];
  return { reply, streamSequence, deliveries, storedAt: Math.floor(nanos / 1_000_000), message };
}
