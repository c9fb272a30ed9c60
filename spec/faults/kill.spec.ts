import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { Ledger } from '../support/ledger.ts';
import { post, startProgram, startServices } from '../support/program.ts';
import { type Random, randomFrom, seedNote } from '../support/seed.ts';

const ROUNDS = Number(process.env.FAULT_ROUNDS ?? 6);

interface Target {
  env: Record<string, string>;
  ledger: Ledger;
  random: Random;
}

/** Under load, after some tasks were accepted. */
async function whileAccepting({ env, ledger, random }: Target): Promise<void> {
  const services = await startServices({ env });
  const load = ledger.flood(services.tasks, random);
  const goal = ledger.size + 1 + random.below(200);
  while (ledger.size < goal) await setTimeout(1);
  services.child.kill('SIGKILL');
  await Promise.all([services.exited, load]);
}

/** While a backlog is worked off, with nobody submitting. */
async function whileWorking({ env, ledger, random }: Target): Promise<void> {
  const services = await startServices({ env });
  const lock = new DatabaseSync(join(env.DATA_DIR as string, 'tasks.db'), { timeout: 5000 });
  lock.exec('BEGIN IMMEDIATE');
  for (let i = 0; i < 5; i++) await Promise.all(Array.from({ length: 8 }, () => ledger.submit(services.tasks, random)));
  // Closing ends the transaction.
  lock.close();
  await setTimeout(random.below(150));
  services.child.kill('SIGKILL');
  await services.exited;
}

/** At some moment of the start: before, in the midst of, or after taking up what was left. */
async function whileStarting({ env, random }: Target): Promise<void> {
  const program = await startProgram({ env });
  await setTimeout(random.below(700));
  program.child.kill('SIGKILL');
  await program.exited;
}

/** Within 100 ms of listening again, when what was cut off before is at work first. */
async function againAtOnce(target: Target): Promise<void> {
  await whileAccepting(target);
  for (let i = 0; i < 2; i++) {
    const services = await startServices({ env: target.env });
    await setTimeout(target.random.below(100));
    services.child.kill('SIGKILL');
    await services.exited;
  }
}

const moments = [whileAccepting, whileWorking, whileStarting, againAtOnce];

describe('kill -9 with the durable queue', () => {
  it(`${ROUNDS} times at any moment leaves every accepted task as one row or one dead letter ${seedNote}`, async () => {
    const env = { DATA_DIR: await temporaryFolder(), QUEUE_DRIVER: 'sqlite' };
    const target: Target = { env, ledger: new Ledger(), random: randomFrom(0) };
    // Each kind of moment in turn, from any one on.
    const first = target.random.below(moments.length);
    for (let round = 0; round < ROUNDS; round++) await moments[(first + round) % moments.length]?.(target);

    const last = await startServices({ env });
    expect(await target.ledger.submit(last.tasks, target.random)).to.equal(202);
    await target.ledger.settled(last, env.DATA_DIR);
    last.child.kill('SIGTERM');
    expect((await last.exited).code).to.equal(0);
    expect(last.lines.at(-1)).to.include({ msg: 'stopped', unfinished: 0 });
  }).timeout(30_000 + ROUNDS * 5_000);

  it('is not needed for a deploy: on SIGTERM what is not done is kept, and done by the next process', async () => {
    const env = { DATA_DIR: await temporaryFolder(), QUEUE_DRIVER: 'sqlite' };
    const first = await startServices({ env });
    const lock = new DatabaseSync(join(env.DATA_DIR, 'tasks.db'));
    afterTest(() => lock.close());
    lock.exec('BEGIN IMMEDIATE');
    const ids = new Set<string>();
    for (let i = 0; i < 20; i++) ids.add((await post(`${first.tasks}/tasks`, { action: 'sum' })).body.id);
    first.child.kill('SIGTERM');
    expect((await first.exited).code).to.equal(0);
    expect(first.lines.at(-1)).to.include({ msg: 'stopped', unfinished: 20 });
    lock.exec('COMMIT');

    await startServices({ env });
    const stored = lock.prepare('SELECT id FROM tasks');
    while (stored.all().length < 20) await setTimeout(20);
    expect(stored.all().map(({ id }) => id)).to.have.members([...ids]);
  });
});
