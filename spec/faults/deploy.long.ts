import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { post, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';

describe('a deploy with the durable queue', () => {
  it('loses nothing: on SIGTERM unsettled tasks are kept, and the next process completes them', async () => {
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
    const kept = await eventually(
      () => stored.all(),
      ({ length }) => length >= 20,
    );
    expect(kept.map(({ id }) => id)).to.have.members([...ids]);
  });
});
