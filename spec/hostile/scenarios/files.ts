import { closeSync, openSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { migrate } from '../../../db/sqlite/migrate.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import { startProgram } from '../../support/program.ts';
import { type Attacker, failing, submissionOf } from '../attacker.ts';
import type { Scenario, Scenarios, Setup, Stage } from '../scenario.ts';
import { stopBounds } from '../verdict.ts';

const PAGE = 4096;
const TASKS = 300;

/**
 * Starts a second process on a folder, with low priority so that it does not slow the services down. Returns its
 * outcome.
 */
async function start(DATA_DIR: string): Promise<string> {
  const program = await startProgram({ env: { DATA_DIR }, within: ['nice', '-n', '19'] });
  return `exit ${(await program.exited).code}`;
}

/** Creates a folder with a database of which all pages but the first are overwritten. */
async function damagedFolder(name: string): Promise<string> {
  const folder = await temporaryFolder();
  migrate(folder);
  const path = join(folder, name);
  const bytes = statSync(path).size - PAGE;
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc(bytes, 7), 0, bytes, PAGE);
  closeSync(file);
  return folder;
}

async function fillDisk({ target, seconds, did }: Stage): Promise<void> {
  await setTimeout((seconds * 1000) / 3);
  target.disk?.fill();
  did('full');
  await setTimeout((seconds * 1000) / 3);
  await target.disk?.free();
}

async function submits(attacker: Attacker): Promise<void> {
  const body = submissionOf(10_000);
  for (let task = 0; task < TASKS && !attacker.over; task++) await attacker.post('tasks', '/tasks', body);
}

const small: Setup = { diskMb: 64, alone: true };
export const files = {
  'full-disk-memory-queue': {
    setup: small,
    bounds: { keptMib: 16 },
    fault: fillDisk,
    attack: submits,
    outcomes: /^(full|202)$/,
  },
  'full-disk-durable-queue': {
    setup: { ...small, env: { QUEUE_DRIVER: 'sqlite' } },
    bounds: { refusals: true, keptMib: 16 },
    fault: fillDisk,
    attack: submits,
    outcomes: /^(full|202|500)$/,
  },
  'damaged-files': {
    fault: async ({ target, random, did }) => {
      did(await start(await damagedFolder(random.pick(['auth.db', 'tasks.db']))));
      // The folder is locked by the running process.
      did(await start(target.dataDir));
    },
    outcomes: /^exit 1$/,
  },
} satisfies Scenarios;

const fails = (attacker: Attacker) => attacker.repeat(4, () => attacker.post('tasks', '/tasks', failing));
/** Memory of dead letters and of buffered log lines. */
const outputBounds = { keptMib: 48 };
export const output = {
  'log-output-stalled': { setup: { output: 'stalled', alone: true }, bounds: outputBounds, attack: fails },
  'log-output-full': { setup: { output: 'full', alone: true }, bounds: outputBounds, attack: fails },
} satisfies Scenarios;

/** Returns a fault that ends the process halfway through the scenario and restarts it in the same folder. */
const endBy =
  (signal: NodeJS.Signals) =>
  async ({ target, random, seconds, did }: Stage): Promise<void> => {
    await setTimeout((seconds * 1000) / 3 + random.below(300));
    did(`exit ${await target.end(signal)}`);
    await target.start();
  };

const submitsAny = (attacker: Attacker) =>
  attacker.repeat(8, () => {
    const bodies = ['{"action":"x"}', failing, '{"action":"sum","data":{"numbers":[1]}}'];
    return attacker.post('tasks', '/tasks', attacker.random.pick(bodies));
  });

/** Memory of the old process's dead letters and keys, which the new process loads. */
const bounds = { ...stopBounds, keptMib: 32 };
const orderly: Scenario = {
  ...{ setup: { alone: true }, bounds, attack: submitsAny },
  outcomes: /^(exit 0|202|500|503|refused|no answer)$/,
};
export const stops = {
  sigterm: { ...orderly, fault: endBy('SIGTERM') },
  sighup: { ...orderly, fault: endBy('SIGHUP') },
  sigkill: {
    setup: { alone: true, env: { QUEUE_DRIVER: 'sqlite' } },
    ...{ bounds, fault: endBy('SIGKILL'), attack: submitsAny },
    outcomes: /^(exit SIGKILL|202|refused|no answer)$/,
  },
} satisfies Scenarios;
