import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { head } from '../support/raw-connection.ts';
import type { Random } from '../support/seed.ts';

/** Addresses and secrets that an attack receives. */
export interface Mark {
  /** Ports of the three listeners. */
  ports: { ticker: number; tasks: number; admin: number };
  /** API key of the attacker, which is not the key of the neighbours. */
  apiKey: string;
}

export type Service = keyof Mark['ports'];

/** Longest wait for a response, in milliseconds. */
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
  readonly outcomes = new Map<string, number>();
  readonly #ends: number;
  readonly #sockets = new Set<Socket>();

  constructor(mark: Mark, { random, seed, seconds }: { random: Random; seed: number; seconds: number }) {
    this.mark = mark;
    this.random = random;
    this.seed = seed;
    this.#ends = performance.now() + seconds * 1000;
  }

  get over(): boolean {
    return performance.now() >= this.#ends;
  }

  /** Waits until the time of the attack is over. */
  async rest(): Promise<void> {
    await setTimeout(Math.max(0, this.#ends - performance.now()));
  }

  got(outcome: string | number): void {
    this.outcomes.set(`${outcome}`, (this.outcomes.get(`${outcome}`) ?? 0) + 1);
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

  /**
   * Opens a connection from one of the attacker's addresses.
   *
   * @param host last number of that address
   * @returns undefined if the connection was refused
   */
  async connect(service: Service, host = 1): Promise<Socket | undefined> {
    const socket = connect({
      port: this.mark.ports[service],
      host: '127.0.0.1',
      localAddress: `${NETWORK}${host}`,
      noDelay: true,
    });
    this.#sockets.add(socket);
    socket.on('error', () => {}).once('close', () => this.#sockets.delete(socket));
    await Promise.race([once(socket, 'connect'), once(socket, 'close')]).catch(() => {});
    if (!socket.destroyed) return socket;
    this.got('refused');
    await setTimeout(10);
    return undefined;
  }

  /** Opens connections, 100 at a time, and returns the accepted ones. */
  async connections(service: Service, count: number, host = 1): Promise<Socket[]> {
    const sockets: Socket[] = [];
    for (let opened = 0; opened < count; opened += 100) {
      const batch = Array.from({ length: Math.min(100, count - opened) }, () => this.connect(service, host));
      for (const socket of await Promise.all(batch)) if (socket !== undefined) sockets.push(socket);
    }
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

  post(service: Service, path: string, body: string | Buffer, headers: string[] = [], host = 1): Promise<string> {
    return this.send(service, Buffer.concat([Buffer.from(posting(path, body, headers)), Buffer.from(body)]), host);
  }

  async token(host = 1): Promise<string> {
    const answer = await this.post('ticker', '/auth/token', JSON.stringify({ api_key: this.mark.apiKey }), [], host);
    return /"token":"([^"]+)"/.exec(answer)?.[1] ?? '';
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

/** Head of a POST with `Connection: close`. */
export function posting(path: string, body: string | Buffer, headers: string[] = []): string {
  return head(
    `POST ${path} HTTP/1.1`,
    'Host: localhost',
    'Connection: close',
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...headers,
  );
}

/** Returns a submission whose text is `bytes` long in UTF-8, filled with characters of one or several bytes. */
export function submissionOf(bytes: number, filler = 'x'): Buffer {
  const frame = Buffer.byteLength('{"action":"x","data":{"text":""}}');
  return Buffer.from(`{"action":"x","data":{"text":"${filler.repeat((bytes - frame) / Buffer.byteLength(filler))}"}}`);
}

/** A task that cannot succeed. */
export const failing = '{"action":"sum","data":{"numbers":["1"]}}';
