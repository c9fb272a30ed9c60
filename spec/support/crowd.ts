import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Crowd } from '../load/crowd.ts';
import { serveCalls, startChild } from './child.ts';
import { checkFrame } from './contract.ts';

/** Numbers of clients. Silent and chatty ones never read; the chatty ones ping twice a second. */
type CrowdStart = { port: number; token: string; readers: number; silent?: number; chatty?: number };

/** Measures the longest delay of timers in this process, which tells the machine's load. */
export function watchDelays(): { worstMs(): number; reset(): void } {
  const resolution = 5;
  const delays = monitorEventLoopDelay({ resolution });
  delays.enable();
  return { worstMs: () => Math.max(0, delays.max / 1e6 - resolution), reset: () => delays.reset() };
}

class Clients {
  #crowd!: Crowd;
  #readers = 0;
  readonly #delays = watchDelays();
  readonly #types: Record<string, number> = {};

  async join({ port, token, readers, silent = 0, chatty = 0 }: CrowdStart): Promise<void> {
    /** Distinct messages. Each is checked once. */
    const messages = new Set<string>();
    const connections = readers + silent + chatty;
    this.#readers = readers;
    this.#crowd = new Crowd({
      target: { host: '127.0.0.1', port, path: '/ws/ticker', token },
      connections,
      silent: silent + chatty,
      pinging: chatty,
      // Below the listen backlog of a server.
      concurrency: 200,
      onText: (text) => {
        const type = /^{"type":"(\w+)"/.exec(text)?.[1] ?? text;
        this.#types[type] = (this.#types[type] ?? 0) + 1;
        if (messages.has(text)) return;
        messages.add(text);
        checkFrame(text);
      },
    });
    await this.#crowd.gather();
    if (this.#crowd.size < connections) throw new Error(`clients cannot join: ${[...this.#crowd.losses.keys()]}`);
  }

  /** Reports once all readers have received the newest tick, or one of them has disconnected. */
  async report() {
    let lacking: number;
    do lacking = await this.#crowd.catchUp(100);
    while (lacking > 0 && this.#crowd.size >= this.#readers);
    const { missed, timestamps, lateness } = this.#crowd.record.report();
    return {
      open: this.#crowd.size,
      /** Timestamps of all distinct ticks in order, without snapshots. */
      timestamps,
      /** Number of the newest ticks that readers have not received, and of those that they missed in between. */
      ...{ lacking, missed },
      types: this.#types,
      closed: Object.fromEntries([...this.#crowd.losses].filter(([reason]) => reason.startsWith('close code'))),
      /** Longest delays of ticks that are due at full seconds, and of timers in this process. */
      ...{ lateMs: lateness.max, machineMs: this.#delays.worstMs() },
    };
  }

  startOver(): void {
    this.#crowd.startOver();
    this.#delays.reset();
  }

  letAllRead(): void {
    this.#crowd.letAllRead();
  }
}

export async function gather(start: CrowdStart) {
  const clients = startChild<Clients>(import.meta.url);
  await clients.join(start);
  return clients;
}

if (import.meta.main) serveCalls(new Clients());
