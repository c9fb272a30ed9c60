import { expect } from 'chai';
import { systemClock } from '../../../workers/shared/clock.ts';
import { retry } from '../../store/stage.ts';
import { request } from '../../support/program.ts';
import { startTasksServer } from './tasks-server.ts';

describe('a scheduled task', () => {
  it('is answered like any other, and shown with its time until it is due', async () => {
    const server = await startTasksServer();
    const before = systemClock.now();
    const id = await server.submitTask({ delay: 3600, priority: 2 });
    const { run_at_ms, ...task } = await server.find(id);
    expect(run_at_ms).to.be.within(before + 3_600_000, systemClock.now() + 3_600_000);
    expect(task).to.include({ id, status: 'scheduled', priority: 2 });
    expect(await server.queued()).to.deep.equal([]);
    const soon = await server.submitTask({ delay: 0.001 });
    const delivery = await server.take();
    expect(delivery.id).to.equal(soon);
    expect(delivery.dueAt).to.be.at.most(systemClock.now());
  });

  it('runs now on request, like a retrying one, and a task that waits or runs stays as it is', async () => {
    const { ask, tasksUrl, submitTask, settle, take, takeAll, complete } = await startTasksServer();
    const [scheduled, retried] = [await submitTask({ delay: 3600 }), await submitTask({})];
    await settle(await take(), retry(systemClock.now() + 3_600_000));
    for (const id of [retried, scheduled, scheduled])
      expect(await ask(`POST /tasks/${id}/run`)).to.deep.equal([202, { id, status: 'queued' }]);
    const { headers } = await request(`${tasksUrl}/${scheduled}/run`, { method: 'POST' });
    expect(headers.get('Location')).to.equal(`/tasks/${scheduled}`);
    const [first, second] = await takeAll(2);
    expect([first?.id, second?.id]).to.deep.equal([retried, scheduled]);
    expect((await ask(`POST /tasks/${scheduled}/run`))[1]).to.deep.equal({ id: scheduled, status: 'running' });
    await complete(second as NonNullable<typeof second>);
    expect(await ask(`POST /tasks/${scheduled}/run`)).to.deep.equal([409, { error: 'task finished' }]);
  });
});
