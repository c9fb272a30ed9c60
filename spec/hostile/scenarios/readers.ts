import { setTimeout } from 'node:timers/promises';
import { head } from '../../support/raw-connection.ts';
import type { Scenario } from '../scenario.ts';
import { submissionOf } from './submissions.ts';

const MIB = 1024 * 1024;
const LARGE_ROWS = 30;

const get = (path: string) => head(`GET ${path} HTTP/1.1`, 'Host: localhost');

const group = 'readers';

export const readers: readonly Scenario[] = [
  {
    name: 'slow-listing',
    group,
    attack: async (attacker) => {
      for (let row = 0; row < LARGE_ROWS; row++) await attacker.post('tasks', '/tasks', submissionOf(MIB));
      await attacker.readSlowly('tasks', 200, get('/tasks'));
    },
  },
  {
    name: 'slow-static',
    group,
    attack: async (attacker) => {
      await attacker.readSlowly('ticker', 200, get('/vendor/uplot.js').repeat(99));
    },
  },
  {
    name: 'slow-metrics',
    group,
    attack: async (attacker) => {
      await attacker.readSlowly('admin', 100, get('/metrics').repeat(50));
    },
  },
  {
    // Twice the connection limit of one address, from four addresses, so that the service's total limit is reached.
    name: 'slow-events',
    group,
    attack: async (attacker) => {
      for (const host of [1, 2, 3, 4]) await attacker.readSlowly('tasks', 50, get('/tasks/events'), host);
      await attacker.repeat(2, async () => {
        await attacker.post('tasks', '/tasks', '{"action":"x"}');
        await setTimeout(5);
      });
    },
    outcomes: /^(began to answer|202)$/,
  },
];
