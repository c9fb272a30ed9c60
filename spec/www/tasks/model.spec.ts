import { mock } from 'node:test';
import { expect } from 'chai';
import type { QueueStatus } from '../../../www/client/queue-api.ts';
import type { TaskEvent } from '../../../www/client/task-state.ts';
import type { State } from '../../../www/tasks/board-task.ts';
import { Model } from '../../../www/tasks/model.ts';
import { client } from '../../../www/tasks/service.ts';
import { afterTest } from '../../support/cleanup.ts';
import { until } from '../../support/until.ts';

const running = { id: 'a', action: 'resize', status: 'running', payload: '{}', payload_bytes: 2, accepted_at_ms: 1 };
const ALL = { q: '', action: '', cause: '', last: '' } as const;
const queued = { ...running, id: 'b', status: 'queued' };

/** Starts a model on a page whose clock and listings the spec controls. */
function startModel() {
  const document = Object.assign(new EventTarget(), { visibilityState: 'visible' });
  Object.assign(globalThis, { document });
  afterTest(() => Reflect.deleteProperty(globalThis, 'document'));
  let now = 0;
  mock.timers.enable({ apis: ['setTimeout'] });
  mock.method(performance, 'now', () => now);
  const requests: ((tasks: object[], next: string | null) => void)[] = [];
  let requested = 0;
  mock.method(client.http, 'request', () => {
    requested += 1;
    return new Promise((resolve) => requests.push((tasks, next_cursor) => resolve({ tasks, next_cursor })));
  });
  const model = new Model();
  /** Answers the next listing, or that at an index, and waits until the model has rendered it. */
  const answer = async (tasks: object[], next: string | null = null, index = 0) => {
    const rendered = model.version.value;
    requests.splice(index, 1)[0]?.(tasks, next);
    await until(() => {
      now += 1;
      mock.timers.tick(1);
      return model.version.value > rendered;
    });
  };
  return {
    ...{ model, answer },
    show(visibilityState: 'visible' | 'hidden') {
      document.visibilityState = visibilityState;
      document.dispatchEvent(new Event('visibilitychange'));
    },
    open(state: State, tasks: object[] = [], next?: string) {
      model.open(state, ALL);
      return answer(tasks, next);
    },
    /** Moves the clock. Returns the number of listings that were requested so far. */
    pass(milliseconds: number) {
      now += milliseconds;
      mock.timers.tick(milliseconds);
      return requested;
    },
  };
}

const event = (name: TaskEvent['event'], id: string) => ({ event: name, id, action: 'resize', at: 1 }) as TaskEvent;
const ids = (model: Model, state: 'running' | 'queued' | 'limited') => model.tasks(state).map(({ id }) => id);

describe('the model of the task board', () => {
  it('does not list a completed task as running because of an older listing, and lists again', async () => {
    const { model, open, answer, pass } = startModel();
    model.apply([event('started', 'a'), event('completed', 'a')]);
    pass(1_000);
    await open('running', [running]);
    expect([ids(model, 'running'), model.get('a')?.state]).to.deep.equal([[], 'completed']);
    expect(pass(1_000)).to.equal(2);
    await answer([]);
    expect(pass(60_000)).to.equal(2);
  });

  it('lists again until a response is newer than the last event', async () => {
    const { model, open, answer, pass } = startModel();
    await open('queued');
    model.apply([event('accepted', 'b')]);
    pass(1_000);
    await answer([]);
    expect(ids(model, 'queued')).to.deep.equal([]);
    pass(1_000);
    await answer([queued]);
    expect([ids(model, 'queued'), pass(60_000)]).to.deep.equal([['b'], 3]);
    model.apply([event('progress', 'b')]);
    expect(pass(60_000), 'after progress').to.equal(3);
  });

  it('keeps the answer to the later of two requests, if that to the earlier one comes after it', async () => {
    const { model, answer, pass } = startModel();
    for (const state of ['queued', 'running', 'queued'] as const) {
      model.open(state, ALL);
      pass(1);
    }
    await answer([queued], null, 2);
    await Promise.all([answer([]), answer([])]);
    expect(ids(model, 'queued')).to.deep.equal(['b']);
  });

  it('reports an answer that is no page, and requests the list again', async () => {
    const { model, answer, pass } = startModel();
    model.open('queued', ALL);
    await answer(undefined as never);
    expect(model.problem.value).to.be.an('error');
    model.setQueue({ accepted: 1, limits: {} } as QueueStatus);
    expect(pass(1_000)).to.equal(2);
    await answer([queued]);
    expect([ids(model, 'queued'), model.problem.value]).to.deep.equal([['b'], undefined]);
  });

  it('appends older pages, and keeps them if the newest page still adjoins', async () => {
    const { model, open, answer, pass } = startModel();
    const page = (newest: number, length = 100) =>
      Array.from({ length }, (_, index) => ({ ...running, id: `t${newest - index}`, created_at: 1, processed_at: 1 }));
    const listed = () => model.list('completed')?.ids;
    const next = () => model.list('completed')?.next;
    await open('completed', page(500), 'b');
    const older = model.loadMore(model.list('completed') as never);
    await answer(page(400, 50));
    await older;
    expect([listed()?.length, next()]).to.deep.equal([150, null]);
    model.apply([event('completed', 't501')]);
    pass(1_000);
    await answer(page(501), 'b');
    expect([listed()?.[0], listed()?.length]).to.deep.equal(['t501', 151]);
    model.reload();
    pass(1_000);
    expect(next()).to.equal(null);
    await answer(page(900), 'c');
    expect([listed()?.length, next()]).to.deep.equal([100, 'c']);
  });

  it('lists again after a gap during a refresh, and after a gap while the page is hidden', async () => {
    const { model, open, answer, show, pass } = startModel();
    await open('running');
    model.reload();
    expect(pass(1_000)).to.equal(2);
    model.reload();
    await answer([]);
    expect(pass(1_000)).to.equal(3);
    await answer([]);

    show('hidden');
    model.reload();
    expect(pass(60_000)).to.equal(3);
    show('visible');
    expect(pass(1_000)).to.equal(4);
    await answer([running]);
    expect([ids(model, 'running'), pass(60_000)]).to.deep.equal([['a'], 4]);
  });
});
