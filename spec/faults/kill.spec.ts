import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { post, startServices } from '../support/program.ts';
import { itSurvivesKills } from './kill-rounds.ts';

describe('kill -9 with the durable queue', () => {
  itSurvivesKills(3);

  it('is not needed for a deploy: on SIGTERM unsettled tasks are kept, and the next process completes them', async () => {
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
