import { handshake, head } from '../../support/raw-connection.ts';
import type { Attacker } from '../attacker.ts';
import type { Scenarios } from '../scenario.ts';
import { floodBounds } from '../verdict.ts';

const REQUESTS = 3600;
const CONNECTIONS = 300;

const smallest = 'GET / HTTP/1.1\r\n\r\n';

/** Repeatedly opens connections, sends the same bytes on all of them at once, and waits for their end. */
const sendAtOnce = (attacker: Attacker, bytes: string) =>
  attacker.repeat(1, async () => {
    const sockets = await attacker.connections('tasks', CONNECTIONS);
    for (const socket of sockets) socket.write(bytes);
    attacker.sent(sockets.length * REQUESTS);
    await Promise.all(sockets.map((socket) => attacker.answer(socket)));
  });

export const pipelines = {
  'requests-in-one-packet': {
    bounds: floodBounds,
    attack: (attacker) => sendAtOnce(attacker, smallest.repeat(REQUESTS)),
    outcomes: /^(400|408|no answer|refused)$/,
  },
  'upgrade-after-requests': {
    attack: async (attacker) => {
      const token = await attacker.token(9);
      const before = head('GET /vendor/uplot.js HTTP/1.1', 'Host: localhost').repeat(3);
      await attacker.repeat(8, async () => {
        const wire = await attacker.send('ticker', before + head(...handshake('/ws/ticker', token)), 9);
        // The upgrade must not overtake earlier responses.
        const at = wire.indexOf('HTTP/1.1 101');
        const isOvertaken = at >= 0 && (wire.slice(0, at).match(/^HTTP\/1\.1 200/gm) ?? []).length < 3;
        attacker.got(isOvertaken ? 'upgrade overtook an answer' : 'in order');
      });
    },
    outcomes: /^(200|in order|no answer)$/,
  },
} satisfies Scenarios;
