import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { holdTasks } from '../support/held-tasks.ts';
import { openBeside } from '../support/migrated-folder.ts';
import { post, request, startServices } from '../support/program.ts';
import { until } from '../support/until.ts';

const submit = async (tasks: string, action = 'hold', headers = {}) =>
  (await request(`${tasks}/tasks`, { method: 'POST', body: JSON.stringify({ action }), headers })).body.id as string;

describe('a deploy with the in-memory queue', () => {
  it('leaves tasks, idempotency keys and dead letters to the next process', async () => {
    const { module: TASK_HANDLERS, release } = await holdTasks();
    const env = {
      DATA_DIR: await temporaryFolder(),
      SHUTDOWN_TIMEOUT_MS: '300',
      TASK_HANDLERS,
      TASK_UNKNOWN_ACTIONS: 'process',
    };
    const first = await startServices({ env });
    const dead = (await post(`${first.tasks}/tasks`, { action: 'sum', data: { numbers: ['1'] } })).body.id;
    await first.logged(({ msg }) => msg === 'task failed');
    const ids = new Set<string>();
    for (let i = 0; i < 20; i++) ids.add(await submit(first.tasks));
    const named = await submit(first.tasks, 'hold', { 'Idempotency-Key': 'k' });
    ids.add(named);
    expect(await first.end()).to.deep.include({ code: 0 });
    expect(first.lines.at(-1)).to.include({ level: 30, msg: 'stopped', unfinished: 21 });
    await release();

    const second = await startServices({ env });
    const stored = openBeside(env.DATA_DIR).prepare('SELECT id FROM tasks');
    await until(() => stored.all().length >= 21);
    expect(stored.all().map(({ id }) => id)).to.have.members([...ids]);
    expect((await request(`${second.tasks}/tasks/${dead}`)).body).to.include({ status: 'failed', attempts: 1 });
    expect(await submit(second.tasks, 'hold', { 'Idempotency-Key': 'k' })).to.equal(named);

    expect(await second.end()).to.deep.include({ code: 0 });
    // All tasks completed in the second process, so the third one has only the dead letter.
    const third = await startServices({ env });
    const { body } = await request(`${third.tasks}/queue`);
    expect(body).to.include({ accepted: 1, dead: 1, waiting: 0, delayed: 0, in_flight: 0 });
    expect(stored.all()).to.have.length(21);
  });

  it('exits with code 20 and a warning if it cannot store the accepted tasks', async () => {
    const env = { DATA_DIR: await temporaryFolder(), SHUTDOWN_TIMEOUT_MS: '200' };
    const first = await startServices({ env });
    openBeside(env.DATA_DIR).exec('BEGIN IMMEDIATE');
    await submit(first.tasks, 'sum');
    expect(await first.end()).to.deep.include({ code: 20 });
    expect(first.lines.at(-1)).to.include({ level: 40, msg: 'stopped: accepted tasks are lost', unfinished: 1 });
  });
});
