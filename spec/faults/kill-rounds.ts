import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { untilIdle } from '../support/ledger.ts';
import { runOn } from '../support/migrated-folder.ts';
import { post, startProgram, startServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';
import { cancels, HANDLERS, operates, pauses, remembers, submits } from './kill-clients.ts';
import { KillLedger } from './kill-ledger.ts';

const CLIENTS = [submits, submits, submits, cancels, operates, pauses];

/** Longest time until the kill, from the start of the process and from the first request. */
const [STARTING_MS, SERVING_MS] = [700, 500];

/** Settings that differ from round to round. */
const SETTINGS: Readonly<Record<string, readonly string[]>> = {
  TASK_PREFETCH: ['1', '5', '20'],
  TASK_OVERLAP: ['1', '1', '4'],
  TASK_ISOLATION: ['thread', 'thread', 'thread', 'process'],
};

interface Target {
  env: Record<string, string>;
  ledger: KillLedger;
}

/** Defines the spec that kills a process with the durable queue `rounds` times, at random moments. */
export function itSurvivesKills(rounds: number): void {
  it(`${rounds} times at any moment leaves every accepted task with one outcome, which agrees with every answer ${seedNote}`, async () => {
    const DATA_DIR = await temporaryFolder();
    const TASK_HANDLERS = await writeHandlers(HANDLERS);
    const env = { DATA_DIR, QUEUE_DRIVER: 'sqlite', TASK_HANDLERS, TASK_UNKNOWN_ACTIONS: 'process' };
    const target = { env, ledger: new KillLedger(DATA_DIR, await temporaryFolder()) };
    while (target.ledger.round < rounds) await runRound(target);
    await runLastRound(target);
    console.log(`    ${JSON.stringify(target.ledger.summary())}`);
    expect(runOn(DATA_DIR, 'PRAGMA integrity_check')).to.deep.equal([{ integrity_check: 'ok' }]);
  }).timeout(60_000 + rounds * 15_000);
}

/** Kills one process, every fifth while it starts, and checks its files. */
async function runRound({ env, ledger }: Target): Promise<void> {
  const round = ++ledger.round;
  // Each client has its own sequence, so that its choices do not depend on the timing of the others.
  const streamOf = (index: number) => randomFrom(round * (CLIENTS.length + 2) + index);
  const random = streamOf(0);
  const settings = Object.entries(SETTINGS).map(([name, values]) => [name, random.pick(values)]);
  const options = { env: { ...env, ...Object.fromEntries(settings) } };
  if (round > 1 && random.below(5) === 0) {
    const program = await startProgram(options);
    await setTimeout(random.below(STARTING_MS));
    await program.end('SIGKILL');
    return ledger.check(false);
  }
  const services = await startServices(options);
  const kill = setTimeout(random.below(SERVING_MS)).then(() => services.end('SIGKILL'));
  const target = { tasks: services.tasks, ledger, isOver: () => services.child.signalCode !== null };
  const serve = async () => {
    await remembers({ ...target, random: streamOf(1) });
    await Promise.all(CLIENTS.map((client, index) => client({ ...target, random: streamOf(index + 2) })));
  };
  const [served] = await Promise.allSettled([serve(), kill]);
  ledger.check(true);
  if (served.status === 'rejected') throw served.reason;
}

/** Processes everything that is left, and checks that nothing is. */
async function runLastRound({ env, ledger }: Target): Promise<void> {
  ledger.round += 1;
  const services = await startServices({ env });
  expect((await post(`${services.tasks}/queue/resume`, {})).status).to.equal(200);
  const { dead } = await untilIdle(services.tasks);
  expect((await services.end()).code).to.equal(0);
  expect(services.lines.find(({ msg }) => msg.startsWith('stopped'))).to.include({ msg: 'stopped', unfinished: 0 });
  ledger.check(true);
  expect(ledger.in('accepted', 'waiting', 'running')).to.deep.equal([]);
  expect(dead, 'dead letters').to.be.at.least(ledger.in('failed').length);
}
