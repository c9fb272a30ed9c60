import { StreamClient } from '../load/stream-client.ts';
import { type Sight, TICK_INTERVAL_MS } from './neighbours.ts';
import { TickLateness } from './tick-lateness.ts';

const STREAMS = 20;
/** Longest wait for outstanding ticks at the end of a window. */
const CATCH_UP_MS = 2000;

const TICKER = '{"type":"ticker"';

interface Member {
  client: StreamClient;
  lateness: TickLateness;
  hasSnapshot: boolean;
  /** Position of the newest tick that the client received; undefined before the first. */
  newest: number | undefined;
}

/** Twenty clients of the stream that must receive every tick in time. */
export class NeighbourStreams {
  readonly #members = new Set<Member>();
  /** Position of each received tick, by its text, which is the same for all clients. */
  #positions = new Map<string, number>();
  #missed = 0;
  #disconnections: Record<string, number> = {};

  /** Opens the streams and waits for the first ticks. */
  async join(port: number, token: string): Promise<void> {
    await Promise.all(Array.from({ length: STREAMS }, () => this.#open(port, token)));
    const deadline = performance.now() + 10_000;
    while (this.#positions.size < 2) {
      if (performance.now() > deadline) throw new Error('no ticks');
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  begin(): void {
    this.#positions = new Map();
    this.#missed = 0;
    this.#disconnections = {};
    for (const member of this.#members) {
      member.newest = undefined;
      member.lateness.reset();
    }
  }

  /** Waits for outstanding ticks, and returns the clients' observations. */
  async end(): Promise<Pick<Sight, 'open' | 'ticks' | 'missed' | 'tickMs' | 'disconnections'>> {
    const deadline = performance.now() + CATCH_UP_MS;
    const ticks = this.#positions.size;
    const behind = () => [...this.#members].reduce((sum, { newest = -1 }) => sum + Math.max(0, ticks - 1 - newest), 0);
    while (behind() > 0 && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 2));
    return {
      open: this.#members.size,
      ticks,
      missed: this.#missed + behind(),
      tickMs: Math.max(0, ...[...this.#members].map(({ lateness }) => lateness.worstMs)),
      disconnections: this.#disconnections,
    };
  }

  leave(): void {
    for (const { client } of this.#members) client.destroy();
    this.#members.clear();
  }

  #open(port: number, token: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const member: Member = {
        lateness: new TickLateness(TICK_INTERVAL_MS),
        hasSnapshot: false,
        newest: undefined,
        client: new StreamClient(
          { host: '127.0.0.1', port, path: '/ws/ticker', token },
          {
            onOpen: () => {
              this.#members.add(member);
              resolve();
            },
            onText: (payload) => this.#note(member, payload),
            onEnd: (reason) => {
              this.#members.delete(member);
              this.#disconnections[reason] = (this.#disconnections[reason] ?? 0) + 1;
              reject(new Error(`a neighbour cannot join: ${reason}`));
            },
          },
        ),
      };
    });
  }

  #note(member: Member, payload: Buffer): void {
    const now = performance.timeOrigin + performance.now();
    const text = payload.toString('latin1');
    if (!text.startsWith(TICKER)) return;
    if (!member.hasSnapshot) {
      member.hasSnapshot = true;
      return;
    }
    const position = this.#positions.get(text) ?? this.#positions.size;
    this.#positions.set(text, position);
    if (member.newest !== undefined) this.#missed += position - member.newest - 1;
    member.newest = position;
    member.lateness.record(Number(/"timestamp":(\d+)/.exec(text)?.[1]), now);
  }
}
