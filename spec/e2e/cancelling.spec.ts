import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { queueCounts } from '../support/ledger.ts';
import { post, type RunningServices, request, startServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { eventually } from '../support/until.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';
import { followEvents } from '../tasks/http/event-client.ts';

async function submit({ tasks }: RunningServices, action: string): Promise<string> {
  return (await post(`${tasks}/tasks`, { action })).body.id;
}

const find = ({ tasks }: RunningServices, id: string) => request(`${tasks}/tasks/${id}`);
const cancel = ({ tasks }: RunningServices, id: string) => request(`${tasks}/tasks/${id}`, { method: 'DELETE' });

/** Waits until a task has this status, or is unknown if the status is undefined. */
async function reach(services: RunningServices, id: string, status: string | undefined) {
  return eventually(
    () => find(services, id),
    ({ body }) => body.status === status,
  );
}

async function metric({ admin }: RunningServices, name: string): Promise<number> {
  const { body } = await request(`${admin}/metrics`);
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(body)?.[1]);
}

describe('a real process whose tasks are cancelled', () => {
  it('ends a running task by its signal or with its thread, and shows its progress until then', async () => {
    const TASK_HANDLERS = await writeHandlers(`export default {
      heed: (_, { signal, progress }) => new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
        progress(0.5, 'half');
      }),
      block(_, { progress }) { progress(0.25); for (;;); },
    }`);
    const services = await startServices({ env: { TASK_HANDLERS, TASK_CANCEL_GRACE_MS: '50', TASK_CONCURRENCY: '1' } });
    const events = await followEvents(services.tasks);
    for (const [action, progress] of [
      ['heed', { fraction: 0.5, note: 'half' }],
      ['block', { fraction: 0.25 }],
    ] as const) {
      const id = await submit(services, action);
      const { body } = await eventually(
        () => find(services, id),
        ({ body }) => body.progress !== undefined,
      );
      expect(body).to.deep.include({ id, status: 'running', attempt: 1, progress });
      const next = await submit(services, 'uppercase');
      expect(await cancel(services, id)).to.deep.include({ status: 202, body: { id, status: 'cancelling' } });
      expect(await reach(services, id, undefined)).to.include({ status: 404 });
      expect(await reach(services, next, 'completed')).to.include({ status: 200 });
      const names: string[] = [];
      while (names.at(-1) !== 'cancelled') {
        const event = await events.next();
        if (event?.data.id === id) names.push(event.event);
      }
      expect(names).to.deep.equal(['accepted', 'started', 'progress', 'cancelled']);
    }
    expect(await queueCounts(services.tasks)).to.include({ cancelled: 2, completed: 2, dead: 0 });
    expect(await metric(services, 'tasks_cancelled_total')).to.equal(2);
  });

  it('has lost no confirmed cancellation when it was killed', async () => {
    const handlers = (wait: string) =>
      writeHandlers(`export default { wait: ${wait}, later() { throw new RetryAfter(60_000); } }`);
    const env = { QUEUE_DRIVER: 'sqlite', DATA_DIR: await temporaryFolder(), TASK_CONCURRENCY: '1' };
    const first = await startServices({
      env: { ...env, TASK_HANDLERS: await handlers('() => new Promise(() => {})') },
    });
    const later = await submit(first, 'later');
    await reach(first, later, 'retrying');
    const running = await submit(first, 'wait');
    await reach(first, running, 'running');
    const waiting: string[] = [];
    for (let count = 0; count < 20; count++) waiting.push(await submit(first, 'uppercase'));
    const [kept, ...rest] = waiting as [string, ...string[]];
    const cancelled = [later, ...rest];
    for (const id of cancelled) expect((await cancel(first, id)).status).to.equal(204);
    first.child.kill('SIGKILL');
    await first.exited;

    const second = await startServices({ env: { ...env, TASK_HANDLERS: await handlers(`() => 'done'`) } });
    for (const id of [running, kept]) await reach(second, id, 'completed');
    for (const id of cancelled) expect((await find(second, id)).status).to.equal(404);
    expect(await queueCounts(second.tasks)).to.include({ accepted: 2, completed: 2, waiting: 0, delayed: 0 });
    expect((await request(`${second.tasks}/tasks`)).body.count).to.equal(2);
  });

  for (const QUEUE_DRIVER of ['memory', 'sqlite']) {
    it(`has either a row or a cancellation for each task, whenever it is cancelled: ${QUEUE_DRIVER} ${seedNote}`, async () => {
      const TASK_HANDLERS = await writeHandlers(`export default {
        short: () => 'done',
        async later() { await new Promise((resolve) => setTimeout(resolve, 3)); return 'done'; },
        block() { for (const end = Date.now() + 8; Date.now() < end;); return 'done'; },
        retry(_, { attempt }) { if (attempt < 3) throw new RetryAfter(2); return 'done'; },
        heed: (_, { signal }) => new Promise((resolve, reject) => {
          const timer = setTimeout(resolve, 10, 'done');
          signal.addEventListener('abort', () => { clearTimeout(timer); reject(signal.reason); });
        }),
      }`);
      const actions = ['short', 'later', 'block', 'retry', 'heed', 'uppercase', 'unknown'];
      const services = await startServices({ env: { QUEUE_DRIVER, TASK_HANDLERS, TASK_CANCEL_GRACE_MS: '2' } });
      const random = randomFrom(0);
      const answers = new Map<string, number>();
      const uncancelled: string[] = [];
      const cancelNow = async (id: string) => {
        const { status, body } = await cancel(services, id);
        expect(status, JSON.stringify(body)).to.be.oneOf([202, 204, 409]);
        answers.set(id, status);
      };
      // The first of these two tasks has not started yet, the second has ended.
      await request(`${services.tasks}/queue/pause`, { method: 'POST' });
      await cancelNow(await submit(services, 'short'));
      await request(`${services.tasks}/queue/resume`, { method: 'POST' });
      const ended = await submit(services, 'short');
      await eventually(
        () => find(services, ended),
        ({ body }) => body.status === 'completed',
      );
      await cancelNow(ended);
      const client = async () => {
        for (let count = 0; count < 60; count++) {
          const id = await submit(services, actions[random.below(actions.length)] as string);
          if (random.below(4) === 0) uncancelled.push(id);
          else {
            await setTimeout(random.below(25));
            await cancelNow(id);
          }
        }
      };
      await Promise.all(Array.from({ length: 8 }, client));
      const counts = await eventually(
        () => queueCounts(services.tasks),
        ({ waiting, delayed, in_flight }) => waiting + delayed + in_flight === 0,
      );
      let rows = 0;
      for (const [id, answer] of [...answers, ...uncancelled.map((id) => [id, 409] as const)]) {
        const { status, body } = await find(services, id);
        if (status === 200) rows += 1;
        const note = `${id} answered ${answer}: ${JSON.stringify(body)}`;
        if (answer === 204) expect(status, note).to.equal(404);
        if (answer === 409) expect(body.status, note).to.equal('completed');
        if (status === 200) expect(body.status, note).to.equal('completed');
      }
      expect(counts).to.include({ accepted: 482, dead: 0, completed: rows, cancelled: 482 - rows });
      expect(new Set(answers.values())).to.include(204).and.to.include(409);
    });
  }
});
