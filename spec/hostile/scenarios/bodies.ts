import { setTimeout } from 'node:timers/promises';
import { head, lastHead, posting } from '../../support/raw-connection.ts';
import { type Attacker, repeating, type Scenarios, type Service, submissionOf } from '../attacker.ts';
import { floodBounds, MIB } from '../verdict.ts';

const DRIP_MS = 50;

const nested = Buffer.from(`${'['.repeat(MIB / 2)}${']'.repeat(MIB / 2)}`);
const wide = Buffer.from(`[${'[],'.repeat(MIB / 3 - 1)}[]]`);

/** Sends many large bodies without their last byte, and then all last bytes at once. */
const completes = (service: Service, path: string, body: Buffer) => async (attacker: Attacker) => {
  const sockets = await attacker.connections(service, 150);
  const start = posting(path, body).subarray(0, -1);
  const answers = sockets.map((socket) => attacker.answer(socket));
  const sent = sockets.map((socket, index) =>
    Promise.race([new Promise((resolve) => socket.write(start, resolve)), answers[index]]),
  );
  await Promise.race([Promise.all(sent), setTimeout(10_000)]);
  for (const socket of sockets) if (socket.writable) socket.write(body.subarray(-1));
  attacker.actions += sockets.length;
  await Promise.all(answers);
};

/** Opens connections, sends `start` on each, and then one byte of `rest` on each per interval. */
const drips = (start: string, rest: string) => async (attacker: Attacker) => {
  const sockets = await attacker.sendOnEach('tasks', 300, start);
  for (const socket of sockets) socket.resume();
  for (let at = 0; !attacker.over; at++) {
    for (const socket of sockets) if (socket.writable) socket.write(rest.charAt(at % rest.length));
    attacker.actions += sockets.length;
    await setTimeout(DRIP_MS);
  }
  attacker.got('still open at the end');
};

const submits = (clients: number, body: (attacker: Attacker) => string | Buffer) =>
  repeating(clients, (attacker) => attacker.submit(body(attacker)));

export const bodies = {
  'one-byte-chunks': {
    bounds: floodBounds,
    outcomes: /^(202|408|no answer|refused)$/,
    attack: repeating(100, (attacker) => {
      const chunks = `{"action":"${'x'.repeat(MIB / 4)}"}`.replaceAll(/./g, '1\r\n$&\r\n');
      return attacker.send('tasks', `${lastHead('POST /tasks', 'Transfer-Encoding: chunked')}${chunks}0\r\n\r\n`);
    }),
  },
  'nested-arrays-tasks': { outcomes: /^(400|503|no answer)$/, attack: completes('tasks', '/tasks', nested) },
  'wide-arrays-tasks': { outcomes: /^(400|503|no answer)$/, attack: completes('tasks', '/tasks', wide) },
  'nested-arrays-token': { outcomes: /^(413|no answer)$/, attack: completes('ticker', '/auth/token', nested) },
  'half-sent-bodies': {
    attack: async (attacker) => {
      const half = posting('/tasks', submissionOf(MIB)).subarray(0, MIB / 2);
      for (const socket of await attacker.sendOnEach('tasks', 300, half)) socket.resume();
    },
  },
  'slow-headers': { attack: drips('GET /tasks HTTP/1.1\r\nHost: ', 'localhost') },
  'slow-bodies': { attack: drips(lastHead('POST /tasks', `Content-Length: ${MIB}`), '{"action"') },
  'wrong-lengths': {
    attack: repeating(8, (attacker) => {
      const framing = attacker.random.pick([
        ...['Content-Length: 99999999999999999999', 'Content-Length: -1', 'Content-Length: 5, 5'],
        'Content-Length: 3\r\nContent-Length: 4',
        'Content-Length: 3\r\nTransfer-Encoding: chunked',
        'Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n',
      ]);
      return attacker.send('tasks', `${lastHead('POST /tasks', framing)}{"action":"x"}`);
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
      for (let task = 0; task < 40 && (task < 30 || !attacker.over); task++) await attacker.submit(body);
    },
    outcomes: /^(202|503)$/,
  },
} satisfies Scenarios;

const LARGE_ROWS = 30;

/** Opens connections that send a request and read only the first bytes of the response. */
const readsSlowly = (service: Service, count: number, path: string, host?: number) => async (attacker: Attacker) => {
  const bytes = head(`GET ${path} HTTP/1.1`, 'Host: localhost');
  const sockets = await attacker.sendOnEach(service, count, bytes, host);
  for (const socket of sockets) socket.once('readable', () => attacker.got('began to answer'));
};

export const readers = {
  'slow-listing': {
    attack: async (attacker) => {
      for (let row = 0; row < LARGE_ROWS; row++) await attacker.submit(submissionOf(MIB));
      await readsSlowly('tasks', 200, '/tasks')(attacker);
    },
  },
  'slow-static': { attack: readsSlowly('ticker', 200, '/shared/vendor/uplot.js') },
  'slow-metrics': { attack: readsSlowly('admin', 100, '/metrics') },
  // Twice the connection limit of one address, from four addresses, so that the service's total limit is reached.
  'slow-events': {
    attack: async (attacker) => {
      for (const host of [1, 2, 3, 4]) await readsSlowly('tasks', 50, '/tasks/events', host)(attacker);
      await attacker.repeat(2, async () => {
        await attacker.submit('{"action":"x"}');
        await setTimeout(5);
      });
    },
    outcomes: /^(began to answer|202)$/,
  },
} satisfies Scenarios;
