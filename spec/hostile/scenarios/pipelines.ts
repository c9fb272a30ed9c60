import { handshake, head } from '../../support/raw-connection.ts';
import type { Attacker } from '../attacker.ts';
import type { Scenario } from '../scenario.ts';

const REQUESTS = 10_000;

const closing = head('GET /queue HTTP/1.1', 'Host: localhost', 'Connection: close');
const staying = head('GET /queue HTTP/1.1', 'Host: localhost');

/** Counts the responses of a pipeline whose last request ends the connection. */
function countAnswers(attacker: Attacker, wire: string): void {
  const answers = wire.match(/HTTP\/1\.1 \d{3} /g) ?? [];
  attacker.got(answers.length === REQUESTS ? 'all answered' : 'answered in part');
}

const group = 'pipelines';

export const pipelines: readonly Scenario[] = [
  {
    name: 'requests-in-one-packet',
    group,
    attack: (attacker) =>
      attacker.repeat(2, async () => {
        const wire = await attacker.send('tasks', staying.repeat(REQUESTS - 1) + closing);
        attacker.sent(REQUESTS - 1);
        countAnswers(attacker, wire);
      }),
    outcomes: /^(200|all answered|answered in part|no answer)$/,
  },
  {
    name: 'upgrade-after-requests',
    group,
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
];
