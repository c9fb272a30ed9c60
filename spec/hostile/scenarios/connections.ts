import { head } from '../../support/raw-connection.ts';
import type { Scenario, Setup } from '../scenario.ts';

const setup: Setup = { openFiles: 1024 };
const group = 'connections';

export const connections: readonly Scenario[] = [
  {
    name: 'static-readers-1024-files',
    group,
    setup,
    attack: async (attacker) => {
      const requests = head('GET /vendor/uplot.js HTTP/1.1', 'Host: localhost').repeat(99);
      for (const host of [1, 2]) await attacker.readSlowly('ticker', 370, requests, host);
    },
  },
  {
    name: 'half-sent-requests-of-one-address',
    group,
    setup,
    attack: async (attacker) => {
      for (const service of ['ticker', 'tasks', 'admin'] as const) {
        for (const socket of await attacker.connections(service, 1300)) {
          socket.resume().write('GET / HTTP/1.1\r\nHost');
          attacker.sent();
        }
      }
    },
  },
];
