import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { posting } from '../support/raw-connection.ts';
import type { Random } from '../support/seed.ts';
import type { Bounds } from './verdict.ts';

/** One kind of attack on a real process. Neighbours must not notice it. */
export interface Scenario {
  /** Settings of the process under attack. Scenarios with the same settings share a process. */
  env?: Record<string, string>;
  /** Runs in a child process of low priority until the time is over. */
  attack?(attacker: Attacker): Promise<void>;
  bounds?: Partial<Bounds>;
  /** Correct outcomes of the attack; any outcome if absent. */
  outcomes?: RegExp;
}

export type Scenarios = Readonly<Record<string, Scenario>>;

export interface Mark {
  ports: Record<'ticker' | 'tasks' | 'admin', number>;
  /** API key of the attacker, which is not the key of the neighbours. */
  apiKey: string;
}

export type Service = keyof Mark['ports'];

const ANSWER_MS = 10_000;
/** Neighbours use addresses of 127.0.0.0/24. */
const NETWORK = '127.0.1.';

export class Attacker {
  readonly mark: Mark;
  readonly random: Random;
  readonly seed: number;
  /** Number of requests, frames and connections sent. */
  actions = 0;
  /** Number of results by name: a status, a close code, or an error. */
  readonly outcomes: Record<string, number> = {};
  readonly #endsMs: number;
  readonly #sockets = new Set<Socket>();

  constructor(mark: Mark, { random, seed, seconds }: { random: Random; seed: number; seconds: number }) {
    this.mark = mark;
    this.random = random;
    this.seed = seed;
    this.#endsMs = performance.now() + seconds * 1000;
  }

  get over(): boolean {
    return performance.now() >= this.#endsMs;
  }

  got(outcome: string): void {
    this.outcomes[outcome] = (this.outcomes[outcome] ?? 0) + 1;
  }

  /** Repeats a step in `clients` concurrent loops until the attack is over, however busy the machine is at least once. */
  async repeat(clients: number, step: (client: number) => Promise<unknown>): Promise<void> {
    const loop = async (client: number) => {
      do {
        await step(client);
        await setTimeout(0);
      } while (!this.over);
    };
    await Promise.all(Array.from({ length: clients }, (_, client) => loop(client)));
  }

  /** Opens a connection from the address that ends with `host`. Returns undefined if the connection was refused. */
  async connect(service: Service, host = 1): Promise<Socket | undefined> {
    const addresses = { host: '127.0.0.1', localAddress: `${NETWORK}${host}` };
    const socket = connect({ port: this.mark.ports[service], ...addresses, noDelay: true });
    this.#sockets.add(socket);
    socket.on('error', () => {}).once('close', () => this.#sockets.delete(socket));
    await Promise.race([once(socket, 'connect'), once(socket, 'close')]).catch(() => {});
    if (!socket.destroyed) return socket;
    this.got('refused');
    await setTimeout(10);
    return undefined;
  }

  async connections(service: Service, count: number, host = 1): Promise<Socket[]> {
    const sockets: (Socket | undefined)[] = [];
    while (sockets.length < count) {
      const batch = Array.from({ length: Math.min(100, count - sockets.length) }, () => this.connect(service, host));
      sockets.push(...(await Promise.all(batch)));
    }
    return sockets.filter((socket) => socket !== undefined);
  }

  async sendOnEach(service: Service, count: number, bytes: string | Buffer, host = 1): Promise<Socket[]> {
    const sockets = await this.connections(service, count, host);
    for (const socket of sockets) socket.write(bytes);
    this.actions += sockets.length;
    return sockets;
  }

  /** Sends bytes on a connection, waits for its end and counts the status of the first response. */
  async send(service: Service, bytes: string | Buffer, host = 1): Promise<string> {
    const socket = await this.connect(service, host);
    if (socket === undefined) return '';
    socket.write(bytes);
    this.actions += 1;
    return this.answer(socket);
  }

  /** Waits for the end of a connection, counts the status of the first response, and returns all received text. */
  async answer(socket: Socket): Promise<string> {
    let wire = '';
    socket.setEncoding('latin1').on('data', (text: string) => {
      wire += text;
    });
    socket.setTimeout(ANSWER_MS, () => socket.destroy());
    if (!socket.closed) await once(socket, 'close').catch(() => {});
    this.got(/^HTTP\/1\.1 (\d{3})/.exec(wire)?.[1] ?? 'no answer');
    return wire;
  }

  submit(body: string | Buffer, ...headers: string[]): Promise<string> {
    return this.send('tasks', posting('/tasks', body, ...headers));
  }

  /** Exchanges an API key for a token, which is empty if the key is refused. */
  async token(host: number, key = this.mark.apiKey): Promise<string> {
    const answer = await this.send('ticker', posting('/auth/token', JSON.stringify({ api_key: key })), host);
    return /"token":"([^"]+)"/.exec(answer)?.[1] ?? '';
  }

  /** Keeps the connections until the time of the attack is over, and closes them. */
  async end(): Promise<void> {
    await setTimeout(Math.max(0, this.#endsMs - performance.now()));
    for (const socket of this.#sockets) socket.destroy();
  }
}

export const repeating = (clients: number, step: (attacker: Attacker) => Promise<unknown>) => (attacker: Attacker) =>
  attacker.repeat(clients, () => step(attacker));

/** Returns a submission whose text is `bytes` long in UTF-8, filled with characters of one or several bytes. */
export function submissionOf(bytes: number, filler = 'x'): Buffer {
  const frame = Buffer.byteLength('{"action":"x","data":{"text":""}}');
  return Buffer.from(`{"action":"x","data":{"text":"${filler.repeat((bytes - frame) / Buffer.byteLength(filler))}"}}`);
}
