import { setTimeout } from 'node:timers/promises';
import { head } from '../../support/raw-connection.ts';
import { submissionOf } from '../attacker.ts';
import type { Scenarios, Setup } from '../scenario.ts';

const MIB = 1024 * 1024;
const LARGE_ROWS = 30;

const get = (path: string) => head(`GET ${path} HTTP/1.1`, 'Host: localhost');

export const readers = {
  'slow-listing': {
    attack: async (attacker) => {
      for (let row = 0; row < LARGE_ROWS; row++) await attacker.post('tasks', '/tasks', submissionOf(MIB));
      await attacker.readSlowly('tasks', 200, get('/tasks'));
    },
  },
  'slow-static': {
    attack: async (attacker) => {
      await attacker.readSlowly('ticker', 200, get('/vendor/uplot.js'));
    },
  },
  'slow-metrics': {
    attack: async (attacker) => {
      await attacker.readSlowly('admin', 100, get('/metrics'));
    },
  },
  // Twice the connection limit of one address, from four addresses, so that the service's total limit is reached.
  'slow-events': {
    attack: async (attacker) => {
      for (const host of [1, 2, 3, 4]) await attacker.readSlowly('tasks', 50, get('/tasks/events'), host);
      await attacker.repeat(2, async () => {
        await attacker.post('tasks', '/tasks', '{"action":"x"}');
        await setTimeout(5);
      });
    },
    outcomes: /^(began to answer|202)$/,
  },
} satisfies Scenarios;

const fewFiles: Setup = { openFiles: 1024 };
export const connections = {
  'static-readers-1024-files': {
    setup: fewFiles,
    attack: async (attacker) => {
      for (const host of [1, 2]) await attacker.readSlowly('ticker', 370, get('/vendor/uplot.js'), host);
    },
  },
  'half-sent-requests-of-one-address': {
    setup: fewFiles,
    attack: async (attacker) => {
      for (const service of ['ticker', 'tasks', 'admin'] as const) {
        for (const socket of await attacker.connections(service, 1300)) {
          socket.resume().write('GET / HTTP/1.1\r\nHost');
          attacker.sent();
        }
      }
    },
  },
} satisfies Scenarios;
