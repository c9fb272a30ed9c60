import { once } from 'node:events';
import type { Socket } from 'node:net';
import { closeCodes } from '../../../main/ticker/close-codes.ts';
import { handshake, head } from '../../support/raw-connection.ts';
import type { Attacker } from '../attacker.ts';
import type { Scenarios } from '../scenario.ts';

/** Last numbers of the addresses that flood the key exchange, whose rate is limited per address. */
const FLOOD_HOSTS = [20, 21, 22, 23] as const;

const anyText = ({ random }: Attacker, length: number) =>
  Array.from({ length }, () => 'abcdefghijklmnopqrstuvwxyz012345'[random.below(32)]).join('');

const REVOKED = Buffer.alloc(2);
REVOKED.writeUInt16BE(closeCodes.tokenRevoked.code);
const CLOSE_MS = 5000;

/** Waits for the end of a stream. Returns whether it contains the close code, which occurs in no other frame. */
function closedWith(stream: Socket, code: Buffer): Promise<boolean> {
  return new Promise((resolve) => {
    stream.setTimeout(CLOSE_MS, () => resolve(false));
    stream.on('data', (data: Buffer) => {
      if (data.includes(code)) resolve(true);
    });
    stream.once('close', () => resolve(false));
  });
}

export const tokens = {
  'wrong-tokens': {
    attack: (attacker) =>
      attacker.repeat(16, () => {
        const lines = handshake('/ws/ticker', `v3.local.${anyText(attacker, 200)}`);
        return attacker.send('ticker', head(...lines));
      }),
    outcomes: /^401$/,
  },
  'token-flood': {
    attack: (attacker) => attacker.repeat(8, () => attacker.token(attacker.random.pick(FLOOD_HOSTS))).then(() => {}),
    outcomes: /^(200|429)$/,
  },
  'key-stuffing': {
    attack: (attacker) =>
      attacker.repeat(8, () => {
        const key = JSON.stringify({ api_key: anyText(attacker, 32) });
        return attacker.post('ticker', '/auth/token', key, [], attacker.random.pick(FLOOD_HOSTS));
      }),
    outcomes: /^(401|429)$/,
  },
  'revocation-storm': {
    attack: (attacker) =>
      attacker.repeat(8, async () => {
        const host = 30 + attacker.random.below(100);
        const token = await attacker.token(host);
        const stream = await attacker.connect('ticker', host);
        if (stream === undefined || token === '') return;
        stream.write(head(...handshake('/ws/ticker', token)));
        attacker.sent();
        await once(stream, 'data');
        const isRevoked = closedWith(stream, REVOKED);
        const lines = ['DELETE /auth/token HTTP/1.1', 'Host: localhost', 'Connection: close'];
        await attacker.send('ticker', head(...lines, `Authorization: Bearer ${token}`), host);
        attacker.got((await isRevoked) ? 'revoked' : 'not revoked');
        stream.destroy();
      }),
    outcomes: /^(200|204|429|revoked)$/,
  },
} satisfies Scenarios;
