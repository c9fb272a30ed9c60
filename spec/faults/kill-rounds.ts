import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { Ledger } from '../support/ledger.ts';
import { startProgram, startServices } from '../support/program.ts';
import { type Random, randomFrom, seedNote } from '../support/seed.ts';

interface Target {
  env: Record<string, string>;
  ledger: Ledger;
  random: Random;
}

/** Kills under load, after some tasks were accepted. */
async function whileAccepting({ env, ledger, random }: Target): Promise<void> {
  const services = await startServices({ env });
  const load = ledger.flood(services.tasks, random);
  const goal = ledger.size + 1 + random.below(100);
  while (ledger.size < goal) await setTimeout(1);
  services.child.kill('SIGKILL');
  await Promise.all([services.exited, load]);
}

/** Kills while a backlog is processed and no client submits. */
async function whileWorking({ env, ledger, random }: Target): Promise<void> {
  const services = await startServices({ env });
  const lock = new DatabaseSync(join(env.DATA_DIR as string, 'tasks.db'), { timeout: 5000 });
  lock.exec('BEGIN IMMEDIATE');
  for (let i = 0; i < 5; i++) await Promise.all(Array.from({ length: 8 }, () => ledger.submit(services.tasks, random)));
  // Closing rolls back the transaction and releases the lock.
  lock.close();
  await setTimeout(random.below(150));
  services.child.kill('SIGKILL');
  await services.exited;
}

/** Kills at a random moment of the start: before, during or after the recovery of the queue. */
async function whileStarting({ env, random }: Target): Promise<void> {
  const program = await startProgram({ env });
  await setTimeout(random.below(700));
  program.child.kill('SIGKILL');
  await program.exited;
}

/** Kills under load, and again within 100 ms of the next start, while the suspects of that kill run. */
async function duringRecovery(target: Target): Promise<void> {
  await whileAccepting(target);
  const services = await startServices({ env: target.env });
  await setTimeout(target.random.below(100));
  services.child.kill('SIGKILL');
  await services.exited;
}

const moments = [whileWorking, whileStarting, duringRecovery];

/** Defines the spec that kills a process with the durable queue `rounds` times, at each kind of moment in turn. */
export function itSurvivesKills(rounds: number): void {
  it(`${rounds} times at any moment leaves every accepted task as one row or one dead letter ${seedNote}`, async () => {
    const env = { DATA_DIR: await temporaryFolder(), QUEUE_DRIVER: 'sqlite' };
    const target: Target = { env, ledger: new Ledger(), random: randomFrom(0) };
    // Start at a random kind of moment, then take the kinds in turn.
    const first = target.random.below(moments.length);
    for (let round = 0; round < rounds; round++) await moments[(first + round) % moments.length]?.(target);

    const last = await startServices({ env });
    expect(await target.ledger.submit(last.tasks, target.random)).to.equal(202);
    await target.ledger.settled(last, env.DATA_DIR);
    last.child.kill('SIGTERM');
    expect((await last.exited).code).to.equal(0);
    expect(last.lines.at(-1)).to.include({ msg: 'stopped', unfinished: 0 });
  }).timeout(60_000 + rounds * 15_000);
}
