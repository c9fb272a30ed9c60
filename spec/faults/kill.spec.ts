import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { post, type RunningServices, startServices } from '../support/program.ts';

const ROUNDS = 5;

/** Submits tasks, several at a time, until the program is gone; the ids of all that were accepted. */
async function submitUntilDeath({ tasks }: RunningServices, accepted: Set<string>): Promise<void> {
  const submit = async () => {
    for (;;) {
      const answer = await post(`${tasks}/tasks`, { action: 'uppercase', data: { text: 'x' } }).catch(() => undefined);
      if (answer === undefined) return;
      if (answer.status === 202) accepted.add(answer.body.id);
    }
  };
  await Promise.all(Array.from({ length: 8 }, submit));
}

function read(path: string, sql: string): Record<string, unknown>[] {
  const database = new DatabaseSync(path);
  afterTest(() => database.close());
  return database.prepare(sql).all();
}

describe('kill -9 with the durable queue', () => {
  it('at any moment leaves every accepted task as one row or one dead letter', async () => {
    const env = { DATA_DIR: await temporaryFolder(), QUEUE_DRIVER: 'sqlite' };
    const accepted = new Set<string>();
    for (let round = 0; round < ROUNDS; round++) {
      const services = await startServices({ env });
      const load = submitUntilDeath(services, accepted);
      const goal = accepted.size + 1 + Math.floor(Math.random() * 200);
      while (accepted.size < goal) await new Promise(setImmediate);
      services.child.kill('SIGKILL');
      await services.exited;
      await load;
    }

    const last = await startServices({ env });
    const queue = new DatabaseSync(join(env.DATA_DIR, 'queue.db'));
    afterTest(() => queue.close());
    const left = queue.prepare('SELECT count(*) AS count FROM messages');
    while (left.get()?.count !== 0) await new Promise((resolve) => setTimeout(resolve, 20));
    last.child.kill('SIGTERM');
    expect((await last.exited).code).to.equal(0);

    const rows = read(join(env.DATA_DIR, 'tasks.db'), 'SELECT id FROM tasks').map(({ id }) => id as string);
    const dead = read(join(env.DATA_DIR, 'queue.db'), 'SELECT id FROM dead_letters').map(({ id }) => id as string);
    const ended = [...rows, ...dead];
    expect(new Set(ended).size, 'ended once').to.equal(ended.length);
    const lost = [...accepted].filter((id) => !ended.includes(id));
    expect(lost, 'accepted and lost').to.deep.equal([]);
  }).timeout(60_000);

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
    while (stored.all().length < 20) await new Promise((resolve) => setTimeout(resolve, 20));
    expect(stored.all().map(({ id }) => id)).to.have.members([...ids]);
  });
});
