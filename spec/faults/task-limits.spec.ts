import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { inspect, inspectable } from '../support/inspector.ts';
import { post, type RunningServices, request, startServices } from '../support/program.ts';

const POOL = /piscina/;

/** Makes the threads that are alive misbehave at tasks whose text is `bad`, together as often as there are `folders`. */
const sabotage = (misbehave: string, folders: string[]) => `{
  const { toUpperCase } = String.prototype;
  const { mkdirSync } = process.getBuiltinModule('fs');
  const isFirst = (folder) => { try { mkdirSync(folder); return true; } catch { return false; } };
  String.prototype.toUpperCase = function () {
    if (this.valueOf() === 'bad' && ${JSON.stringify(folders)}.some(isFirst)) { ${misbehave} }
    return toUpperCase.call(this);
  };
}`;

async function startSabotaged(misbehave: string, times: number, env: Record<string, string>): Promise<RunningServices> {
  const services = await startServices({ nodeOptions: inspectable, env });
  const inspector = await inspect(services);
  await inspector.alive(POOL, 2);
  const folder = await temporaryFolder();
  const folders = Array.from({ length: times }, (_, index) => join(folder, String(index)));
  inspector.evaluate(POOL, sabotage(misbehave, folders));
  return services;
}

async function submit({ tasks }: RunningServices, text: string): Promise<string> {
  return (await post(`${tasks}/tasks`, { action: 'uppercase', data: { text } })).body.id;
}

/** The task once it has come to its end. */
async function ended({ tasks }: RunningServices, id: string) {
  for (;;) {
    const { body } = await request(`${tasks}/tasks/${id}`);
    if (body.status === 'completed' || body.status === 'failed') return body;
  }
}

describe('a task', () => {
  for (const [what, misbehave, reason] of [
    ['hangs', 'for (;;);', 'took longer than 500 ms'],
    ['eats memory', 'for (const meals = []; ; ) meals.push(new Array(10000).fill({}));', 'memory limit'],
  ] as const) {
    it(`that ${what} is stopped with its thread, counted as a crash, and hits no other task`, async () => {
      const services = await startSabotaged(misbehave, 1, { TASK_TIMEOUT_MS: '500', TASK_MEMORY_MB: '32' });
      const others = [await submit(services, 'a'), await submit(services, 'b')];
      const bad = await submit(services, 'bad');
      for (const text of 'cdefghij') others.push(await submit(services, text));

      const failure = await services.logged(({ msg }) => msg === 'task failed');
      expect(failure).to.include({ task: bad, failure: 'crash', verdict: 'retry', attempt: 1 });
      expect(failure.reason).to.include(reason);
      for (const id of others) expect(await ended(services, id)).to.include({ status: 'completed' });
      expect(await ended(services, bad)).to.include({ status: 'completed', result: '{"output":"BAD"}' });
      const { accepted, completed, ...rest } = (await request(`${services.tasks}/queue`)).body;
      expect({ accepted, completed }).to.deep.equal({ accepted: 11, completed: 11 });
      expect(Object.values(rest).every((count) => count === 0)).to.equal(true);
      expect(services.lines.filter(({ msg }) => msg === 'task failed')).to.have.length(1);
    });
  }

  it('that hangs in both threads at once holds the others up for less than a second more', async () => {
    const services = await startSabotaged('for (;;);', 2, { TASK_TIMEOUT_MS: '300' });
    await Promise.all([submit(services, 'bad'), submit(services, 'bad')]);
    await services.logged(({ msg }) => msg === 'task failed');
    const since = performance.now();
    expect(await ended(services, await submit(services, 'a'))).to.include({ status: 'completed' });
    expect(performance.now() - since).to.be.below(1000);
  });
});
