import type { NatsLink } from '../../../engines/nats-link.ts';
import type { Consumer, Delivery, Verdict } from '../driver.ts';
import { Fifo } from '../fifo.ts';
import type { NatsCounts, OwnMessages } from './counts.ts';
import type { NatsEvents } from './events.ts';
import { Acknowledgements, type Holding, holding } from './holding.ts';
import { type Arrival, NatsIntake } from './intake.ts';
import { NatsSettling, type SettlingParts } from './settling.ts';
import { CONSUMER, streamName } from './streams.ts';

/** JetStream is told what this node still holds so often that it misses three times until it takes that away. */
const BEATS = 4;

export interface ConsumptionOptions extends Omit<SettlingParts, 'acknowledgements'> {
  prefix: string;
  ackWaitMs: number;
}

/**
 * The messages that this node has out of the stream of tasks, from their arrival until they are settled. What is released
 * stays here, at the head of those that wait for the consumer, and is given back to all nodes when that has stopped.
 */
export class NatsConsumption {
  /** Told of each message that comes here, before the consumer is. */
  onArrival: (held: Holding) => void = () => {};
  readonly #link: NatsLink;
  readonly #acknowledgements: Acknowledgements;
  readonly #settling: NatsSettling;
  readonly #counts: NatsCounts;
  readonly #events: NatsEvents;
  readonly #stream: string;
  /** By their place in the stream. */
  readonly #held = new Map<number, Holding>();
  /** Of those, the ones that wait for the consumer. */
  readonly #ready = new Fifo<Holding>();
  /** Messages that were given back, until they come again or their time is long over: another node has them then. */
  readonly #returned = new Map<number, { acceptedAt: number; dueAt: number }>();
  /** Of those that this node holds, the ones whose earlier deliveries are being looked up. */
  readonly #recalling = new Set<Holding>();
  readonly #operations = new Set<Promise<unknown>>();
  readonly #beat: NodeJS.Timeout;
  #intake: NatsIntake | undefined;
  #consumer: { prefetch: number; receive: (delivery: Delivery) => void } | undefined;
  #out = 0;
  #turns = 0;
  #handingOut = false;

  constructor(link: NatsLink, { prefix, ackWaitMs, ...parts }: ConsumptionOptions) {
    this.#link = link;
    this.#acknowledgements = new Acknowledgements(link);
    this.#settling = new NatsSettling({ ...parts, acknowledgements: this.#acknowledgements });
    this.#counts = parts.counts;
    this.#events = parts.events;
    this.#stream = streamName(prefix, 'tasks');
    this.#beat = setInterval(() => this.#keepAlive(ackWaitMs), ackWaitMs / BEATS).unref();
  }

  consume(prefetch: number, receive: (delivery: Delivery) => void): Consumer {
    if (this.#consumer !== undefined) throw new Error('the queue has a consumer already');
    const consumer = { prefetch, receive };
    this.#consumer = consumer;
    this.#intake = new NatsIntake({
      link: this.#link,
      stream: this.#stream,
      consumer: CONSUMER,
      room: () => prefetch - this.#held.size,
      receive: (arrival) => this.#arrive(arrival),
    });
    this.#intake.ask();
    return {
      stop: () => {
        if (this.#consumer === consumer) this.#stop();
      },
    };
  }

  find(id: string): Holding | undefined {
    for (const held of this.#held.values()) if (held.id === id) return held;
    return undefined;
  }

  own(): OwnMessages {
    const now = Date.now();
    let delayed = 0;
    for (const { dueAt } of this.#returned.values()) if (dueAt > now) delayed += 1;
    return { inFlight: this.#out, delayed, pending: this.#held.size + this.#returned.size };
  }

  /** What this node has, and what it gave back. */
  *unsettled(): Generator<{ acceptedAt: number }> {
    yield* this.#held.values();
    yield* this.#returned.values();
  }

  /** The connection is a new one. */
  renew(): void {
    this.#intake?.renew();
  }

  /** Gives everything back, and waits for what was said about other messages, all within a few seconds. */
  async close(): Promise<void> {
    this.#stop();
    // What is being looked up comes back by itself, once it is known what is to be kept of it.
    for (const held of this.#held.values()) if (!this.#recalling.has(held)) void this.#giveBack(held);
    while (this.#operations.size > 0) await Promise.all(this.#operations);
    clearInterval(this.#beat);
  }

  #stop(): void {
    this.#consumer = undefined;
    if (this.#intake !== undefined) void this.#track(this.#intake.stop());
    this.#intake = undefined;
    for (let held = this.#ready.shift(); held !== undefined; held = this.#ready.shift()) void this.#giveBack(held);
  }

  #arrive(arrival: Arrival): void {
    const known = this.#held.get(arrival.place);
    if (known !== undefined) {
      // JetStream has missed its beats, and gave it to the node that has it.
      Object.assign(known, { reply: arrival.reply, deliveries: arrival.deliveries, touchedAt: Date.now() });
      return;
    }
    const held = holding(arrival, ++this.#turns);
    this.#held.set(held.place, held);
    this.#returned.delete(held.place);
    this.#events.arrived(held.id);
    this.onArrival(held);
    if (held.deliveries === 1) this.#admit(held);
    else void this.#track(this.#recall(held));
  }

  async #recall(held: Holding): Promise<void> {
    this.#recalling.add(held);
    try {
      const open = await this.#counts.during(() => this.#settling.recall(held));
      this.#recalling.delete(held);
      if (open) return this.#admit(held);
    } catch {
      // JetStream gives it again after a while.
      this.#recalling.delete(held);
    }
    this.#leave(held);
  }

  #admit(held: Holding): void {
    if (this.#consumer === undefined) return void this.#giveBack(held);
    this.#ready.push(held);
    this.#handOut();
  }

  #handOut(): void {
    // A consumer may settle a delivery before it returns, which leads here again: the loop that runs goes on.
    if (this.#handingOut) return;
    this.#handingOut = true;
    try {
      while (this.#consumer !== undefined && this.#out < this.#consumer.prefetch) {
        const held = this.#ready.shift();
        if (held === undefined) break;
        held.out = true;
        this.#out += 1;
        this.#consumer.receive(this.#delivery(held));
      }
    } finally {
      this.#handingOut = false;
    }
  }

  #delivery(held: Holding): Delivery {
    const { id, body, seq, acceptedAt, note, suspect } = held;
    let settled = false;
    const isOver = () => settled || this.#held.get(held.place) !== held;
    const settle = (then: () => Promise<void>) => async () => {
      if (isOver()) return;
      settled = true;
      await this.#track(this.#counts.during(then));
    };
    return {
      message: { id, body },
      seq,
      acceptedAt,
      attempt: note.attempts + 1,
      crashes: note.crashes,
      cut: note.cut,
      suspect,
      begin: async () => {
        if (isOver()) return;
        held.begun = true;
        await this.#track(this.#settling.begin(held));
      },
      ack: settle(() => this.#after(held, this.#settling.complete(held))),
      nack: (verdict) => settle(() => this.#judge(held, verdict))(),
      release: (isSuspect = suspect) => settle(() => this.#release(held, isSuspect))(),
    };
  }

  #judge(held: Holding, verdict: Verdict): Promise<void> {
    if (verdict.verdict === 'dead') return this.#after(held, this.#settling.bury(held, verdict));
    const dueAt = Date.now() + verdict.delayMs;
    this.#returned.set(held.place, { acceptedAt: held.acceptedAt, dueAt });
    return this.#after(held, this.#settling.retry(held, verdict, dueAt));
  }

  async #release(held: Holding, suspect: boolean): Promise<void> {
    if (this.#consumer === undefined) return this.#giveBack(held);
    const written = this.#settling.unbegin(held);
    held.begun = false;
    held.suspect = suspect;
    held.out = false;
    this.#out -= 1;
    this.#ready.putBack(held, ({ turn }) => turn < held.turn);
    this.#handOut();
    await written;
  }

  #giveBack(held: Holding): Promise<void> {
    this.#returned.set(held.place, { acceptedAt: held.acceptedAt, dueAt: 0 });
    const given = this.#after(
      held,
      this.#counts.during(() => this.#settling.giveBack(held)),
    );
    // Where that does not arrive, JetStream takes it away after a while.
    return this.#track(given.catch(() => {}));
  }

  /** Lets go of a message about which something is said, and takes another in its place. */
  #after(held: Holding, said: Promise<void>): Promise<void> {
    this.#leave(held);
    return said;
  }

  #leave(held: Holding): void {
    if (!this.#held.delete(held.place)) return;
    if (held.out) this.#out -= 1;
    held.out = false;
    this.#intake?.ask();
    this.#handOut();
  }

  #track<T>(operation: Promise<T>): Promise<T> {
    const over = () => void this.#operations.delete(tracked);
    const tracked: Promise<void> = operation.then(over, over);
    this.#operations.add(tracked);
    return operation;
  }

  #keepAlive(ackWaitMs: number): void {
    const now = Date.now();
    for (const held of this.#held.values())
      if (now - held.touchedAt >= ackWaitMs / BEATS / 2) this.#acknowledgements.touch(held);
    for (const [place, { dueAt }] of this.#returned) if (dueAt + 2 * ackWaitMs < now) this.#returned.delete(place);
    this.#intake?.check();
  }
}
