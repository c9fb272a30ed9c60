import { cpSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { Ledger } from '../support/ledger.ts';
import { runOn } from '../support/migrated-folder.ts';
import { post, type RunningServices, request, startProgram, startServices } from '../support/program.ts';
import { type Random, randomFrom, seedNote } from '../support/seed.ts';

/** Longest time until the kill, from the start of the process and from the first request. */
const [STARTING_MS, SERVING_MS] = [700, 500];

/** Settings that differ from round to round. */
const SETTINGS: Readonly<Record<string, readonly string[]>> = {
  TASK_PREFETCH: ['1', '5', '20'],
  TASK_OVERLAP: ['1', '1', '4'],
  TASK_ISOLATION: ['thread', 'thread', 'thread', 'process'],
};

/** Answers that clients have received, and that each later process must honour. */
class Answered {
  /** State of the pause. Undefined after a request without an answer. */
  paused: boolean | undefined = false;
  /** Ids of scheduled tasks by idempotency key. */
  readonly scheduled = new Map<string, string>();
  readonly cancelled: string[] = [];

  async check(tasks: string, random: Random): Promise<void> {
    const { paused } = (await request(`${tasks}/queue`)).body;
    if (this.paused !== undefined) expect(paused, 'paused').to.equal(this.paused);
    this.paused = paused;
    const cancelled = this.cancelled.slice(-200);
    if (cancelled.length > 0) expect((await request(`${tasks}/tasks/${random.pick(cancelled)}`)).status).to.equal(404);
    for (const [key, id] of [...this.scheduled].slice(-3)) expect((await schedule(tasks, key)).body.id).to.equal(id);
  }

  async operate(tasks: string, random: Random): Promise<void> {
    for (let step = 0; ; step++) {
      await setTimeout(random.below(20));
      const key = `key-${random.below(2 ** 31)}`;
      const { status, body } = await schedule(tasks, key);
      expect(status).to.equal(202);
      this.scheduled.set(key, body.id);
      if (random.below(2) === 0) {
        this.scheduled.delete(key);
        expect((await request(`${tasks}/tasks/${body.id}`, { method: 'DELETE' })).status).to.equal(204);
        this.cancelled.push(body.id);
      }
      if (step % 5 === 0) {
        const paused = !this.paused;
        this.paused = undefined;
        await post(`${tasks}/queue/${paused ? 'pause' : 'resume'}`, {});
        this.paused = paused;
      }
    }
  }
}

const schedule = (tasks: string, key: string) => {
  const headers = { 'Idempotency-Key': key };
  return request(`${tasks}/tasks`, { method: 'POST', headers, body: '{"action":"sum","delay":86400}' });
};

/** Defines the spec that kills a process with the durable queue `rounds` times, at random moments. */
export function itSurvivesKills(rounds: number): void {
  it(`${rounds} times at any moment leaves every accepted task with one outcome, which agrees with every answer ${seedNote}`, async () => {
    const env = { DATA_DIR: await temporaryFolder(), QUEUE_DRIVER: 'sqlite' };
    const [ledger, answered] = [new Ledger(), new Answered()];
    for (let round = 0; round < rounds; round++) {
      const random = randomFrom(round);
      const settings = Object.entries(SETTINGS).map(([name, values]) => [name, random.pick(values)]);
      const options = { env: { ...env, ...Object.fromEntries(settings) } };
      if (round > 0 && random.below(5) === 0) {
        const program = await startProgram(options);
        await setTimeout(random.below(STARTING_MS));
        await program.end('SIGKILL');
      } else await killServing(await startServices(options), ledger, answered, random);
      expect(await tasksWithTwoEnds(env.DATA_DIR)).to.deep.equal([]);
    }
    const services = await startServices({ env });
    await answered.check(services.tasks, randomFrom(rounds));
    for (const id of answered.scheduled.values())
      expect((await request(`${services.tasks}/tasks/${id}`)).body.status).to.equal('scheduled');
    await post(`${services.tasks}/tasks/cancel`, { state: 'scheduled' });
    await post(`${services.tasks}/queue/resume`, {});
    await ledger.settled(services);
    console.log(
      `    ${ledger.size} tasks, ${answered.scheduled.size} scheduled, ${answered.cancelled.length} cancelled`,
    );
    expect((await services.end()).code).to.equal(0);
    expect(runOn(env.DATA_DIR, 'PRAGMA integrity_check')).to.deep.equal([{ integrity_check: 'ok' }]);
  }).timeout(60_000 + rounds * 15_000);
}

async function killServing(services: RunningServices, ledger: Ledger, answered: Answered, random: Random) {
  const { tasks } = services;
  await answered.check(tasks, random);
  const ended = ledger.flood(tasks, random, 3, 5);
  const operating = answered.operate(tasks, random).catch((error: Error) => error);
  await setTimeout(random.below(SERVING_MS));
  await services.end('SIGKILL');
  await ended();
  expect((await operating)?.message, 'a client lost its connection').to.be.oneOf(['fetch failed', 'terminated']);
}

/** Reads a copy, so that the next start finds the files as the kill left them. */
async function tasksWithTwoEnds(dataDir: string) {
  const copy = await temporaryFolder();
  cpSync(dataDir, copy, { recursive: true });
  return runOn(copy, 'SELECT id FROM tasks WHERE id IN (SELECT id FROM messages)');
}
