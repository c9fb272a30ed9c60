import type { Attacker } from '../attacker.ts';
import type { Scenario } from '../scenario.ts';
import { failing } from './submissions.ts';

const fails = (attacker: Attacker) => attacker.repeat(4, () => attacker.post('tasks', '/tasks', failing));
/** Memory of dead letters and of buffered log lines. */
const bounds = { keptMib: 48 };
const group = 'output';

export const output: readonly Scenario[] = [
  { name: 'log-output-stalled', group, setup: { output: 'stalled', alone: true }, bounds, attack: fails },
  { name: 'log-output-full', group, setup: { output: 'full', alone: true }, bounds, attack: fails },
];
