import { setTimeout } from 'node:timers/promises';
import type { Attacker } from '../attacker.ts';
import type { Scenario, Setup } from '../scenario.ts';
import type { Stage } from '../stage.ts';

const DEATH_MS = 500;
/** Longest gap in the ticks after the ticker thread died, as the README promises. */
const RESTART_MS = 1000;

/** Same setup as the misbehaving tasks, so that both share a process. */
const setup: Setup = { inspected: true, env: { TASK_TIMEOUT_MS: '500', TASK_MEMORY_MB: '32' } };

const kills =
  (threads: RegExp) =>
  async ({ target, seconds, did }: Stage): Promise<void> => {
    const end = performance.now() + seconds * 1000;
    while (performance.now() < end) {
      const { count, dead } = target.inspector?.kill(threads) ?? {};
      await dead;
      did(`${count} killed`);
      await setTimeout(DEATH_MS);
    }
  };

const submits = (attacker: Attacker) =>
  attacker.repeat(2, () => attacker.post('tasks', '/tasks', '{"action":"uppercase","data":{"text":"abc"}}'));

const group = 'threads';

export const threads: readonly Scenario[] = [
  { name: 'pool-threads-killed', group, setup, fault: kills(/piscina/), attack: submits },
  {
    name: 'ticker-thread-killed',
    group,
    setup,
    bounds: { tickMs: RESTART_MS + 100 },
    fault: kills(/ticker/),
    attack: submits,
  },
];
