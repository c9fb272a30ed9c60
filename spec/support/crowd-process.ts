/**
 * Many WebSocket clients in one lean process: sockets that share one buffer, handshakes by hand, and frames that are
 * looked at where they lie. Started by `crowd.ts`.
 */
import { connect, type Socket } from 'node:net';
import type { CrowdReport, CrowdStart, CrowdTask } from './crowd.ts';
import { handshake, head } from './raw-connection.ts';

const start = JSON.parse(process.argv[2] ?? '') as CrowdStart;
const request = head(...handshake('/ws/ticker', start.token));

/** Handshakes that may be under way at a time: fewer than a server's backlog. */
const AT_ONCE = 200;
const SHARED_BUFFER = Buffer.allocUnsafe(256 * 1024);
const TEXT = 1;
const CLOSE = 8;
const PING = 9;
const PONG = 10;

/** Every tick that any client got, in order, and its place in that order. */
const ticks: string[] = [];
const placeOf = new Map<string, number>();
const seen = { gaps: 0, types: {} as Record<string, number>, closed: {} as Record<number, number> };

interface Client {
  socket: Socket;
  joined: boolean;
  reads: boolean;
  /** What came of a frame, or of the handshake's answer, that is not whole yet. */
  rest: Buffer | undefined;
  snapshot: boolean;
  /** Place of the newest tick that it got; -1 before the first. */
  newest: number;
  closed: boolean;
}

const clients: Client[] = [];
const wanted = [
  ...Array<'reader'>(start.readers).fill('reader'),
  ...Array<'silent'>(start.silent).fill('silent'),
  ...Array<'chatty'>(start.chatty).fill('chatty'),
];
let underWay = 0;
let joined = 0;

function openMore(): void {
  while (underWay < AT_ONCE && wanted.length > 0) {
    underWay++;
    open(wanted.pop() as 'reader' | 'silent' | 'chatty');
  }
}

function open(kind: 'reader' | 'silent' | 'chatty'): void {
  const onread = {
    buffer: SHARED_BUFFER,
    callback(bytes: number) {
      receive(client, SHARED_BUFFER.subarray(0, bytes));
      // With the handshake's answer read, these read no more.
      return client.reads || !client.joined;
    },
  };
  const socket = connect({ port: start.port, host: '127.0.0.1', onread });
  const client: Client = {
    socket,
    joined: false,
    reads: kind === 'reader',
    rest: undefined,
    snapshot: false,
    newest: -1,
    closed: false,
  };
  clients.push(client);
  socket.on('error', () => {});
  socket.once('close', () => {
    client.closed = true;
    if (!client.joined) throw new Error('a client cannot join');
  });
  socket.write(request);
  if (kind === 'chatty') {
    // Masked with zeros: a ping of the protocol with 125 bytes.
    const ping = Buffer.alloc(6 + 125);
    ping.set([0x80 | PING, 0x80 | 125]);
    setInterval(() => client.joined && !client.closed && socket.writableLength === 0 && socket.write(ping), 500);
  }
}

function receive(client: Client, chunk: Buffer): void {
  let bytes = client.rest === undefined ? chunk : Buffer.concat([client.rest, chunk]);
  client.rest = undefined;
  if (!client.joined) {
    const end = bytes.indexOf('\r\n\r\n');
    if (end < 0) {
      client.rest = Buffer.from(bytes);
      return;
    }
    const status = bytes.toString('latin1', 9, 12);
    if (status !== '101') throw new Error(`a client is refused with ${status}`);
    client.joined = true;
    underWay--;
    if (++joined === clients.length && wanted.length === 0) process.send?.('joined');
    openMore();
    bytes = bytes.subarray(end + 4);
  }
  if (!client.reads) return;
  let at = 0;
  while (bytes.length - at >= 2) {
    const short = (bytes[at + 1] as number) & 0x7f;
    if (short === 127 || (short === 126 && bytes.length - at < 4)) break;
    const from = at + (short === 126 ? 4 : 2);
    const to = from + (short === 126 ? bytes.readUInt16BE(at + 2) : short);
    if (to > bytes.length) break;
    take(client, (bytes[at] as number) & 0x0f, bytes, from, to);
    at = to;
  }
  if (at < bytes.length) client.rest = Buffer.from(bytes.subarray(at));
}

function take(client: Client, opcode: number, bytes: Buffer, from: number, to: number): void {
  if (opcode === PING) {
    const pong = Buffer.concat([Buffer.from([0x80 | PONG, 0x80 | (to - from), 0, 0, 0, 0]), bytes.subarray(from, to)]);
    client.socket.write(pong);
    return;
  }
  if (opcode === CLOSE) {
    const code = bytes.readUInt16BE(from);
    seen.closed[code] = (seen.closed[code] ?? 0) + 1;
    client.socket.end();
    return;
  }
  const text = bytes.toString('latin1', from, to);
  const type = opcode === TEXT ? (/^{"type":"(\w+)"/.exec(text)?.[1] ?? text) : `opcode ${opcode}`;
  seen.types[type] = (seen.types[type] ?? 0) + 1;
  if (type !== 'ticker') return;
  if (!client.snapshot) {
    client.snapshot = true;
    return;
  }
  let place = placeOf.get(text);
  if (place === undefined) {
    place = ticks.push(text) - 1;
    placeOf.set(text, place);
  }
  if (client.newest >= 0 && place !== client.newest + 1) seen.gaps++;
  client.newest = place;
}

process.on('message', (task: CrowdTask) => {
  const readers = clients.filter(({ reads }) => reads);
  if (task === 'let all read') {
    for (const client of clients) client.reads = true;
    for (const { socket } of clients) socket.resume();
    process.send?.(task);
    return;
  }
  const goal = ticks.length - 1;
  // What was sent is on its way: all have the newest tick that one of them has, or will never have it.
  const answer = () => {
    const behind = readers.filter(({ newest }) => newest < goal).length;
    if (behind > 0 && readers.every(({ closed }) => !closed)) {
      setTimeout(answer, 5);
      return;
    }
    const open = clients.filter(({ closed }) => !closed).length;
    const timestamps = ticks.map((text) => Number(/"timestamp":(\d+)/.exec(text)?.[1]));
    process.send?.({ ...seen, open, behind, timestamps } satisfies CrowdReport);
  };
  answer();
});

openMore();
