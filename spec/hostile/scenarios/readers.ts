import { setTimeout } from 'node:timers/promises';
import { head } from '../../support/raw-connection.ts';
import { type Attacker, type Scenarios, type Service, submissionOf } from '../attacker.ts';
import { MIB } from '../verdict.ts';

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
