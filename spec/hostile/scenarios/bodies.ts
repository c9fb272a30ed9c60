import type { Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { head } from '../../support/raw-connection.ts';
import { type Attacker, posting, type Service, submissionOf } from '../attacker.ts';
import type { Scenarios } from '../scenario.ts';
import { floodBounds } from '../verdict.ts';

const MIB = 1024 * 1024;
const DRIP_MS = 50;

const nested = Buffer.from(`${'['.repeat(MIB / 2)}${']'.repeat(MIB / 2)}`);
const wide = Buffer.from(`[${'[],'.repeat(MIB / 3 - 1)}[]]`);

/** Sends many large bodies without their last byte, and then all last bytes at once. */
const completes =
  (service: Service, path: string, body: Buffer) =>
  async (attacker: Attacker): Promise<void> => {
    const sockets = await attacker.connections(service, 150);
    const start = posting(path, body);
    const sent = (socket: Socket) =>
      new Promise<void>((resolve) => {
        socket.once('close', () => resolve());
        socket.write(Buffer.concat([Buffer.from(start), body.subarray(0, -1)]), () => resolve());
      });
    const answers = sockets.map((socket) => attacker.answer(socket));
    await Promise.race([Promise.all(sockets.map(sent)), setTimeout(10_000)]);
    for (const socket of sockets) if (socket.writable) socket.write(body.subarray(-1));
    attacker.actions += sockets.length;
    await Promise.all(answers);
  };

/** Opens connections, sends `start` on each, and then one byte of `rest` on each per interval. */
async function drip(attacker: Attacker, { start, rest, count }: { start: string; rest: string; count: number }) {
  const sockets = await attacker.connections('tasks', count);
  for (const socket of sockets) socket.resume().write(start);
  attacker.actions += sockets.length;
  for (let at = 0; !attacker.over; at++) {
    for (const socket of sockets) if (socket.writable) socket.write(rest.charAt(at % rest.length));
    attacker.actions += sockets.length;
    await setTimeout(DRIP_MS);
  }
  attacker.got('still open at the end');
}

function chunkedByBytes(text: string): string {
  return `${text.replaceAll(/./g, '1\r\n$&\r\n')}0\r\n\r\n`;
}

/** Returns an attack that submits the results of `body` repeatedly. */
const submits =
  (clients: number, body: (attacker: Attacker) => string | Buffer, path = '/tasks') =>
  (attacker: Attacker) =>
    attacker.repeat(clients, () => attacker.post(path === '/tasks' ? 'tasks' : 'ticker', path, body(attacker)));

export const bodies = {
  'one-byte-chunks': {
    bounds: floodBounds,
    outcomes: /^(202|408|no answer|refused)$/,
    attack: (attacker) => {
      const chunks = chunkedByBytes(`{"action":"${'x'.repeat(MIB / 4)}"}`);
      const lines = ['POST /tasks HTTP/1.1', 'Host: localhost', 'Connection: close', 'Transfer-Encoding: chunked'];
      return attacker.repeat(100, () => attacker.send('tasks', head(...lines) + chunks));
    },
  },
  'nested-arrays-tasks': { outcomes: /^(400|503|no answer)$/, attack: completes('tasks', '/tasks', nested) },
  'wide-arrays-tasks': { outcomes: /^(400|503|no answer)$/, attack: completes('tasks', '/tasks', wide) },
  'nested-arrays-token': { outcomes: /^(413|no answer)$/, attack: completes('ticker', '/auth/token', nested) },
  'half-sent-bodies': {
    attack: async (attacker) => {
      const body = submissionOf(MIB);
      for (const socket of await attacker.connections('tasks', 300)) {
        socket.resume().write(Buffer.concat([Buffer.from(posting('/tasks', body)), body.subarray(0, MIB / 2)]));
        attacker.actions += 1;
      }
    },
  },
  'slow-headers': {
    attack: (attacker) => drip(attacker, { start: 'GET /tasks HTTP/1.1\r\nHost: ', rest: 'localhost', count: 300 }),
  },
  'slow-bodies': {
    attack: (attacker) =>
      drip(attacker, { start: posting('/tasks', submissionOf(MIB)), rest: '{"action"', count: 300 }),
  },
  'wrong-lengths': {
    attack: (attacker) =>
      attacker.repeat(8, () => {
        const { random } = attacker;
        const lengths = ['Content-Length: 99999999999999999999', 'Content-Length: -1', 'Content-Length: 5, 5'];
        const framing = random.pick([
          ...lengths,
          'Content-Length: 3\r\nContent-Length: 4',
          'Content-Length: 3\r\nTransfer-Encoding: chunked',
          'Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n',
        ]);
        const lines = ['POST /tasks HTTP/1.1', 'Host: localhost', 'Connection: close', framing];
        return attacker.send('tasks', `${head(...lines)}{"action":"x"}`);
      }),
    outcomes: /^(400|413|no answer)$/,
  },
  'deep-bodies': {
    attack: submits(8, ({ random }) => {
      const depth = 1 + random.below(50_000);
      return `{"action":"x","data":${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}}`;
    }),
    outcomes: /^(202|400)$/,
  },
  'invalid-utf8': {
    attack: submits(4, ({ random }) => Buffer.alloc(MIB, 0x80 + random.below(0x80))),
    outcomes: /^(400|503)$/,
  },
  'many-keys': {
    attack: submits(2, ({ random }) => {
      const first = random.below(2 ** 20);
      const keys = Array.from({ length: 60_000 }, (_, index) => `"k${first + index}":1`);
      return `{"action":"x","data":{${keys.join(',')}}}`;
    }),
    outcomes: /^(202|503)$/,
  },
  'two-byte-strings': {
    attack: async (attacker) => {
      const body = submissionOf(MIB, '€');
      for (let task = 0; task < 40 && (task < 30 || !attacker.over); task++)
        await attacker.post('tasks', '/tasks', body);
    },
    outcomes: /^(202|503)$/,
  },
} satisfies Scenarios;
