import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { type Inspector, inspect, inspectable, sabotage } from '../support/inspector.ts';
import { post, type RunningServices, request, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';

const POOL = /piscina/;
/** Hangs without using the CPU. */
const SLEEP = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);';

async function start(env: Record<string, string>) {
  const services = await startServices({ nodeOptions: inspectable, env });
  return { services, inspector: await inspect(services) };
}

/** Makes the next `times` tasks with the text `bad` misbehave, whichever thread runs them. */
async function misbehave(inspector: Inspector, times: number, code: string): Promise<void> {
  await inspector.alive(POOL, 2);
  const folder = await temporaryFolder();
  const folders = Array.from({ length: times }, (_, index) => join(folder, String(index)));
  await inspector.evaluate(POOL, sabotage(code, folders));
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

/** Submits a task that misbehaves once, with ten others. Asserts that its thread is stopped and all are completed. */
async function runBadTask(services: RunningServices, reason: string): Promise<void> {
  const others = [await submit(services, 'a'), await submit(services, 'b')];
  const bad = await submit(services, 'bad');
  for (const text of 'cdefghij') others.push(await submit(services, text));

  const failure = await services.logged(({ msg }) => msg === 'task failed');
  expect(failure).to.include({ task: bad, failure: 'crash', decision: 'retry', attempt: 1 });
  expect(failure.reason).to.include(reason);
  for (const id of others) expect(await ended(services, id)).to.include({ status: 'completed' });
  expect(await ended(services, bad)).to.include({ status: 'completed', result: '{"output":"BAD"}' });
  const { body } = await request(`${services.tasks}/queue`);
  const none = { dead: 0, dropped: 0, cancelled: 0, waiting: 0, delayed: 0, in_flight: 0, bytes: 0 };
  expect(body).to.include({ accepted: 11, completed: 11, ...none });
  expect(failuresOf(services)).to.have.length(1);
}

function failuresOf({ lines }: RunningServices) {
  return lines.filter(({ msg }) => msg === 'task failed');
}

describe('a task', () => {
  it('that eats memory is stopped with its thread, counted as a crash, and hits no other task', async () => {
    const { services, inspector } = await start({ TASK_MEMORY_MB: '32', TASK_TIMEOUT_MS: '60000' });
    await misbehave(inspector, 1, 'for (const meals = []; ; ) meals.push(new Array(10000).fill({}));');
    await runBadTask(services, 'memory limit');
  });

  it('that hangs is stopped with its thread, and in both threads at once keeps the others waiting until its time limit', async () => {
    const { services, inspector } = await start({ TASK_TIMEOUT_MS: '1000' });
    await misbehave(inspector, 1, 'for (;;);');
    await runBadTask(services, 'took longer than 1000 ms');

    await misbehave(inspector, 2, SLEEP);
    const bad = await Promise.all([submit(services, 'bad'), submit(services, 'bad')]);
    const other = await submit(services, 'a');
    expect(await ended(services, other)).to.include({ status: 'completed' });
    for (const id of bad) expect(await ended(services, id)).to.include({ status: 'completed' });
    const failures = failuresOf(services).slice(1);
    expect(failures.map(({ task }) => task)).to.have.members(bad);
    for (const failure of failures) expect(failure).to.include({ failure: 'crash', attempt: 1 });
  });
});
