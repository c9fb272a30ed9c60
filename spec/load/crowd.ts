import { setTimeout } from 'node:timers/promises';
import { StreamClient, type StreamTarget } from './stream-client.ts';
import { type Follower, TickRecord } from './tick-record.ts';

/** Framing of the same messages by another server. */
export interface Dialect {
  hello: string;
  answers: Readonly<Record<string, string>>;
  offset: number;
}

export interface CrowdOptions {
  target: StreamTarget;
  connections: number;
  concurrency: number;
  tokens?: readonly string[];
  dialect?: Dialect;
  /** Tick interval, for the lateness of ticks that are less than a second apart. */
  intervalMs?: number;
  /** Number of clients, the last ones, that never read. */
  silent?: number;
  /** Number of these that send pings. */
  pinging?: number;
  onText?(text: string): void;
}

const PING_MS = 500;

export class Crowd {
  readonly record: TickRecord;
  /** Number of refused, closed or lost connections by reason. */
  readonly losses = new Map<string, number>();
  readonly #options: CrowdOptions;
  readonly #clients = new Map<StreamClient, Follower>();
  readonly #silent = new Set<StreamClient>();
  #begun = 0;
  #underWay = 0;

  constructor(options: CrowdOptions) {
    this.#options = options;
    this.record = new TickRecord(options.intervalMs);
  }

  get size(): number {
    return this.#clients.size - this.#underWay;
  }

  get lost(): number {
    return [...this.losses.values()].reduce((sum, count) => sum + count, 0);
  }

  async gather(): Promise<void> {
    const { connections, concurrency } = this.#options;
    const connectInTurn = async () => {
      while (this.#begun < connections) await this.#connect(this.#begun++);
    };
    await Promise.all(Array.from({ length: concurrency }, connectInTurn));
  }

  /** Waits until each open client that reads has the newest tick of any client. Returns the number of missing ticks. */
  async catchUp(timeoutMs: number): Promise<number> {
    const until = performance.now() + timeoutMs;
    for (;;) {
      let lacking = 0;
      for (const [client, follower] of this.#clients)
        if (!this.#silent.has(client)) lacking += this.record.behind(follower);
      if (lacking === 0 || performance.now() > until) return lacking;
      await setTimeout(5);
    }
  }

  startOver(): void {
    this.record.startOver();
    for (const follower of this.#clients.values()) follower.last = 'awaits tick';
  }

  letAllRead(): void {
    for (const client of this.#silent) client.read();
    this.#silent.clear();
  }

  disperse(): void {
    for (const client of this.#clients.keys()) client.destroy();
    this.#clients.clear();
  }

  async #connect(number: number): Promise<void> {
    const { target, tokens = [], dialect, connections, silent = 0, pinging = 0, onText } = this.#options;
    const token = tokens[number % tokens.length];
    const follower: Follower = { last: 'awaits snapshot' };
    const settled = Promise.withResolvers<void>();
    const isSilent = number >= connections - silent;
    const pings = number >= connections - pinging && { pingMs: PING_MS };
    const own = { ...localAddress(target.host, number), silent: isSilent, ...pings };
    const ownTarget: StreamTarget = { ...target, ...(token !== undefined && { token }), ...own };
    const client = new StreamClient(ownTarget, {
      onOpen() {
        if (dialect !== undefined) client.send(dialect.hello);
        settled.resolve();
      },
      onText: (payload) => {
        const answer = dialect?.answers[payload.toString('latin1', 0, 1)];
        if (answer !== undefined && payload.length === 1) client.send(answer);
        const text = dialect === undefined ? payload : payload.subarray(dialect.offset);
        onText?.(text.toString('latin1'));
        this.record.note(follower, text, performance.timeOrigin + performance.now());
      },
      onEnd: (reason) => {
        this.#clients.delete(client);
        this.losses.set(reason, (this.losses.get(reason) ?? 0) + 1);
        settled.resolve();
      },
    });
    this.#clients.set(client, follower);
    if (isSilent) this.#silent.add(client);
    this.#underWay += 1;
    await settled.promise;
    this.#underWay -= 1;
  }
}

/** One of 64 loopback addresses: one has 28,000 ports, which are hard to find while thousands are in TIME_WAIT. */
function localAddress(host: string, number: number): { localAddress?: string } {
  return host === '127.0.0.1' ? { localAddress: `127.0.0.${2 + (number % 64)}` } : {};
}
