import { handshake, head } from '../../support/raw-connection.ts';
import type { Attacker } from '../attacker.ts';
import type { Scenario } from '../scenario.ts';

/** Addresses of the floods of exchanges, whose rate is limited by address. */
const FLOOD_HOSTS = [20, 21, 22, 23] as const;

const anyText = ({ random }: Attacker, length: number) =>
  Array.from({ length }, () => 'abcdefghijklmnopqrstuvwxyz012345'[random.below(32)]).join('');

const group = 'tokens';

export const tokens: readonly Scenario[] = [
  {
    name: 'wrong-tokens',
    group,
    attack: (attacker) =>
      attacker.repeat(16, () => {
        const lines = handshake('/ws/ticker', `v3.local.${anyText(attacker, 200)}`);
        return attacker.send('ticker', head(...lines));
      }),
    outcomes: /^401$/,
  },
  {
    name: 'token-flood',
    group,
    attack: (attacker) => attacker.repeat(8, () => attacker.token(attacker.random.pick(FLOOD_HOSTS))).then(() => {}),
    outcomes: /^(200|429)$/,
  },
  {
    name: 'key-stuffing',
    group,
    attack: (attacker) =>
      attacker.repeat(8, () => {
        const key = JSON.stringify({ api_key: anyText(attacker, 32) });
        return attacker.post('ticker', '/auth/token', key, [], attacker.random.pick(FLOOD_HOSTS));
      }),
    outcomes: /^(401|429)$/,
  },
  {
    name: 'revocation-storm',
    group,
    attack: (attacker) =>
      attacker.repeat(8, async () => {
        const host = 30 + attacker.random.below(100);
        const token = await attacker.token(host);
        const stream = attacker.send('ticker', head(...handshake('/ws/ticker', token)), host);
        const lines = ['DELETE /auth/token HTTP/1.1', 'Host: localhost', 'Connection: close'];
        await attacker.send('ticker', head(...lines, `Authorization: Bearer ${token}`), host);
        // The stream may be opened after the revocation (401); else it is closed by it.
        await stream;
      }),
    outcomes: /^(200|204|101|401|429)$/,
  },
];
