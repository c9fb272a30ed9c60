import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { post, type RunningServices, request, startServices, untilTask } from '../support/program.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';

/** Submits tasks of an action at the same time, and returns their final states. */
async function runAll({ tasks }: RunningServices, action: string, count: number) {
  const answers = await Promise.all(Array.from({ length: count }, () => post(`${tasks}/tasks`, { action })));
  return Promise.all(answers.map(({ body: { id } }) => untilTask(tasks, id, 'completed', 'failed')));
}

describe('handlers in a real process', () => {
  it('that wait for each other end on two threads with TASK_OVERLAP=10 if they are twenty', async () => {
    const folder = await temporaryFolder();
    const TASK_HANDLERS = await writeHandlers(`import { readdirSync, writeFileSync } from 'node:fs';
      import { setTimeout } from 'node:timers/promises';
      export default {
        async wait(_, { id, signal }) {
          writeFileSync(${JSON.stringify(folder)} + '/' + id, '');
          while (readdirSync(${JSON.stringify(folder)}).length < 20) await setTimeout(10, undefined, { signal });
          return 'waited';
        },
      };`);
    const env = { TASK_HANDLERS, TASK_OVERLAP: '10', TASK_CONCURRENCY: '2' };
    const services = await startServices({ env });
    const ends = await runAll(services, 'wait', 20);
    for (const end of ends) expect(end).to.include({ status: 'completed', result: '{"output":"waited"}' });
  });

  it('that build a string of 400 MB end no process with TASK_ISOLATION=process, and other tasks complete', async () => {
    const TASK_HANDLERS = await writeHandlers(`export default {
      huge: () => Buffer.from('x'.repeat(4e8)).length,
      small: () => 'small',
    }`);
    const services = await startServices({ env: { TASK_HANDLERS, TASK_ISOLATION: 'process', TASK_MEMORY_MB: '64' } });
    const huge = runAll(services, 'huge', 2);
    for (const end of await runAll(services, 'small', 20)) expect(end).to.include({ status: 'completed' });
    for (const end of await huge) expect(end.status).to.be.oneOf(['completed', 'failed']);
    expect((await request(`${services.admin}/healthz`)).status).to.equal(200);
    expect((await runAll(services, 'small', 1))[0]).to.include({ status: 'completed' });
    services.child.kill('SIGTERM');
    expect(await services.exited).to.deep.equal({ code: 0, signal: null });
  });
});
