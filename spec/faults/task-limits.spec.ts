import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { inspect, inspectable, sabotage } from '../support/inspector.ts';
import { post, type RunningServices, request, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';

const POOL = /piscina/;

async function startSabotaged(misbehave: string, times: number, env: Record<string, string>): Promise<RunningServices> {
  const services = await startServices({ nodeOptions: inspectable, env });
  const inspector = await inspect(services);
  await inspector.alive(POOL, 2);
  const folder = await temporaryFolder();
  const folders = Array.from({ length: times }, (_, index) => join(folder, String(index)));
  await inspector.evaluate(POOL, sabotage(misbehave, folders));
  return services;
}

async function submit({ tasks }: RunningServices, text: string): Promise<string> {
  return (await post(`${tasks}/tasks`, { action: 'uppercase', data: { text } })).body.id;
}

/** Waits until a task is completed or failed. */
async function ended({ tasks }: RunningServices, id: string) {
  const { body } = await eventually(
    () => request(`${tasks}/tasks/${id}`),
    ({ body: { status } }) => status === 'completed' || status === 'failed',
  );
  return body;
}

describe('a task', () => {
  for (const [what, misbehave, reason, env] of [
    ['hangs', 'for (;;);', 'took longer than 1000 ms', { TASK_TIMEOUT_MS: '1000' }],
    [
      'eats memory',
      'for (const meals = []; ; ) meals.push(new Array(10000).fill({}));',
      'memory limit',
      { TASK_MEMORY_MB: '32', TASK_TIMEOUT_MS: '60000' },
    ],
  ] as const) {
    it(`that ${what} is stopped with its thread, counted as a crash, and hits no other task`, async () => {
      const services = await startSabotaged(misbehave, 1, env);
      const others = [await submit(services, 'a'), await submit(services, 'b')];
      const bad = await submit(services, 'bad');
      for (const text of 'cdefghij') others.push(await submit(services, text));

      const failure = await services.logged(({ msg }) => msg === 'task failed');
      expect(failure).to.include({ task: bad, failure: 'crash', decision: 'retry', attempt: 1 });
      expect(failure.reason).to.include(reason);
      for (const id of others) expect(await ended(services, id)).to.include({ status: 'completed' });
      expect(await ended(services, bad)).to.include({ status: 'completed', result: '{"output":"BAD"}' });
      const { accepted, completed, ...rest } = (await request(`${services.tasks}/queue`)).body;
      expect({ accepted, completed }).to.deep.equal({ accepted: 11, completed: 11 });
      expect(Object.values(rest).every((count) => count === 0)).to.equal(true);
      expect(services.lines.filter(({ msg }) => msg === 'task failed')).to.have.length(1);
    });
  }

  it('that hangs in both threads at once keeps the others from running only until its time limit', async () => {
    const services = await startSabotaged('for (;;);', 2, { TASK_TIMEOUT_MS: '1000' });
    const bad = await Promise.all([submit(services, 'bad'), submit(services, 'bad')]);
    const other = await submit(services, 'a');
    expect(await ended(services, other)).to.include({ status: 'completed' });
    for (const id of bad) expect(await ended(services, id)).to.include({ status: 'completed' });
    const failures = services.lines.filter(({ msg }) => msg === 'task failed');
    expect(failures.map(({ task }) => task)).to.have.members(bad);
    for (const failure of failures) expect(failure).to.include({ failure: 'crash', attempt: 1 });
  });
});
