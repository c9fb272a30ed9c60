import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import fc from 'fast-check';
import { closeCodes } from '../../../main/ticker/pid-registry.ts';
import { type Attack, attack, attacks } from '../../support/broken-frames.ts';
import { handshake, head, lastHead } from '../../support/raw-connection.ts';
import { type Attacker, repeating, type Scenarios } from '../attacker.ts';

/** Last number of the attacker's address in scenarios that need tokens. One address may exchange 20 keys a second. */
const HOST = 9;
const PING = Buffer.from([0x89, 0x80, 0, 0, 0, 0]);
const FLOOD = Buffer.concat(Array(2000).fill(PING));

async function knock(attacker: Attacker, token: string, host = HOST): Promise<Socket | undefined> {
  const socket = await attacker.connect('ticker', host);
  if (socket === undefined) return undefined;
  socket.write(head(...handshake('/ws/ticker', token)));
  attacker.actions += 1;
  return socket;
}

async function join(attacker: Attacker, token: string): Promise<Socket | undefined> {
  const socket = await knock(attacker, token);
  if (socket === undefined) return undefined;
  const [data] = await Promise.race([once(socket, 'data'), once(socket, 'close')]).catch(() => ['']);
  attacker.got(String(data).slice(9, 12) || 'no answer');
  return socket;
}

const attacksWith = (samples: (seed: number) => Attack[]) => async (attacker: Attacker) => {
  const token = await attacker.token(HOST);
  const all = samples(attacker.seed);
  let step = 0;
  await attacker.repeat(8, async () => {
    await attack(attacker.mark.ports.ticker, token, all[step++ % all.length] as Attack);
    attacker.actions += 1;
    attacker.got('closed');
  });
};

function fragment(fin: boolean, opcode: number): Attack['frames'][number] {
  const payload = new TextEncoder().encode('x');
  return { fin, rsv: 0, opcode, mask: new Uint8Array(4), payload, length: undefined, wide: false };
}

const fragments = [fragment(false, 1), ...Array(20).fill(fragment(false, 0)), fragment(true, 0)];

export const streams = {
  'broken-frames': { attack: attacksWith((seed) => fc.sample(attacks, { seed, numRuns: 500 })) },
  fragments: { attack: attacksWith(() => [{ frames: fragments, cut: undefined, piece: 1, end: 'FIN' }]) },
  'ping-flood': {
    attack: async (attacker) => {
      const token = await attacker.token(HOST);
      await attacker.repeat(8, async () => {
        const socket = await join(attacker, token);
        while (socket?.writable && !attacker.over) {
          await new Promise((resolve) => socket.write(FLOOD, resolve));
          attacker.actions += FLOOD.length / PING.length;
        }
        socket?.destroy();
      });
    },
    outcomes: /^(200|101|no answer|refused)$/,
  },
  'streams-never-read': {
    attack: async (attacker) => {
      const bytes = head(...handshake('/ws/ticker', await attacker.token(HOST)));
      for (const socket of await attacker.sendOnEach('ticker', 300, bytes, HOST)) socket.pause();
    },
  },
  'half-open-handshakes': {
    attack: async (attacker) => {
      const whole = head(...handshake('/ws/ticker', await attacker.token(HOST)));
      await attacker.repeat(50, async (client) => {
        const socket = await attacker.connect('ticker', HOST);
        if (socket === undefined) return;
        socket.resume();
        attacker.actions += 1;
        const [kind, length] = [client % 3, attacker.random.below(whole.length)];
        if (kind === 0) socket.write(whole.slice(0, length));
        else if (kind === 1) socket.write(whole, () => socket.resetAndDestroy());
        else socket.write(head(...handshake()));
        await setTimeout(100);
        if (kind !== 0) socket.destroy();
      });
    },
  },
  'connect-storm': {
    attack: async (attacker) => {
      const token = await attacker.token(HOST);
      await attacker.repeat(16, async () => {
        const socket = await join(attacker, token);
        if (attacker.random.below(2) === 0) socket?.resetAndDestroy();
        else socket?.destroy();
      });
    },
    outcomes: /^(200|101|no answer|refused)$/,
  },
} satisfies Scenarios;

/** Last numbers of the addresses that flood the key exchange, whose rate is limited per address. */
const FLOOD_HOSTS = [20, 21, 22, 23] as const;

const anyText = ({ random }: Attacker, length: number) =>
  Array.from({ length }, () => 'abcdefghijklmnopqrstuvwxyz012345'[random.below(32)]).join('');

/** Payload of the close frame, which occurs in no other frame. */
const REVOKED = String.fromCharCode(closeCodes.tokenRevoked.code >> 8, closeCodes.tokenRevoked.code & 0xff);
const LONGEST_CLOSE_MS = 60_000;

export const tokens = {
  'wrong-tokens': {
    attack: repeating(16, (attacker) =>
      attacker.send('ticker', head(...handshake('/ws/ticker', `v3.local.${anyText(attacker, 200)}`))),
    ),
    outcomes: /^401$/,
  },
  'token-flood': {
    attack: repeating(8, (attacker) => attacker.token(attacker.random.pick(FLOOD_HOSTS))),
    outcomes: /^(200|429)$/,
  },
  'key-stuffing': {
    attack: repeating(8, (attacker) => attacker.token(attacker.random.pick(FLOOD_HOSTS), anyText(attacker, 32))),
    outcomes: /^(401|429)$/,
  },
  'revocation-storm': {
    attack: repeating(8, async (attacker) => {
      const host = 30 + attacker.random.below(100);
      const token = await attacker.token(host);
      const stream = token === '' ? undefined : await knock(attacker, token, host);
      if (stream === undefined) return;
      const received = attacker.answer(stream);
      stream.on('data', (text: string) => text.includes(REVOKED) && stream.destroy());
      await once(stream, 'data');
      await attacker.send('ticker', lastHead('DELETE /auth/token', `Authorization: Bearer ${token}`), host);
      const wire = await Promise.race([received, setTimeout(LONGEST_CLOSE_MS, '')]);
      attacker.got(wire.includes(REVOKED) ? 'revoked' : 'not revoked');
    }),
    outcomes: /^(101|200|204|429|revoked)$/,
  },
} satisfies Scenarios;
