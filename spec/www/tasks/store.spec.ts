import { mock } from 'node:test';
import { expect } from 'chai';
import type { QueueStatus } from '../../../www/client/queue-api.ts';
import type { TaskEvent } from '../../../www/tasks/board-task.ts';
import { http } from '../../../www/tasks/service.ts';
import { Store } from '../../../www/tasks/store.ts';
import { afterTest } from '../../support/cleanup.ts';
import { until } from '../../support/until.ts';
import { imitatePage } from './imitated-page.ts';

const running = { id: 'a', action: 'resize', status: 'running', payload: '{}', payload_bytes: 2, accepted_at_ms: 1 };
const queued = { ...running, id: 'b', status: 'queued' };

/** Starts a store on a page whose clock and listings the spec controls. */
function startStore() {
  const page = imitatePage();
  let now = 0;
  mock.timers.enable({ apis: ['setTimeout'] });
  const clock = mock.method(performance, 'now', () => now);
  const requests: ((tasks: object[]) => void)[] = [];
  let requested = 0;
  const request = mock.method(http, 'request', () => {
    requested += 1;
    return new Promise((resolve) => requests.push((tasks) => resolve({ tasks })));
  });
  afterTest(() => {
    mock.timers.reset();
    clock.mock.restore();
    request.mock.restore();
  });
  const store = new Store();
  return {
    page,
    store,
    requested: () => requested,
    pass(milliseconds: number) {
      now += milliseconds;
      mock.timers.tick(milliseconds);
    },
    /** Answers the next listing, and waits until the store has rendered it. */
    async answer(tasks: object[]) {
      let renderings = 0;
      const unsubscribe = store.subscribe(() => {
        renderings += 1;
      });
      requests.shift()?.(tasks);
      await until(() => {
        now += 1;
        mock.timers.tick(1);
        return renderings > 0;
      });
      unsubscribe();
    },
  };
}

const event = (name: TaskEvent['event'], id: string): TaskEvent => ({ event: name, id, action: 'resize', at: 1 });
const ids = (store: Store, state: 'running' | 'queued' | 'limited') => store.tasks(state).map(({ id }) => id);

describe('the store of the task board', () => {
  afterEach(() => mock.timers.reset());

  it('does not list a completed task as running because of an older listing, and lists again', async () => {
    const { store, answer, pass, requested } = startStore();
    store.apply([event('started', 'a'), event('completed', 'a')]);
    pass(1_000);
    void store.load('running');
    await answer([running]);
    expect(ids(store, 'running')).to.deep.equal([]);
    expect(store.get('a')?.state).to.equal('completed');
    pass(1_000);
    expect(requested()).to.equal(2);
    await answer([running]);
    expect(ids(store, 'running'), 'by an event that is older than any listing').to.deep.equal(['a']);
    pass(60_000);
    expect(requested()).to.equal(2);
  });

  it('keeps a queued task that an older listing lacks, and lists again', async () => {
    const { store, answer, pass, requested } = startStore();
    void store.load('queued');
    await answer([]);
    store.apply([event('accepted', 'b')]);
    pass(1_000);
    await answer([]);
    expect(ids(store, 'queued')).to.deep.equal(['b']);
    pass(1_000);
    await answer([queued]);
    expect(store.tasks('queued')).to.have.nested.property('[0].payload', '{}');
    pass(60_000);
    expect(requested()).to.equal(3);
  });

  it('lists a completed task once its result is known', async () => {
    const { store, answer, pass, requested } = startStore();
    const result = { status: 'completed', result: '"c"', result_bytes: 3, created_at: 1, processed_at: 1 };
    const completed = { ...running, ...result };
    void store.load('completed');
    await answer([]);
    store.apply([event('completed', 'a')]);
    expect(store.tasks('completed')).to.deep.equal([]);
    pass(1_000);
    store.apply([event('completed', 'c')]);
    await answer([completed]);
    expect(store.tasks('completed').map(({ id, result }) => [id, result])).to.deep.equal([['a', '"c"']]);
    pass(1_000);
    expect(requested(), 'because c was completed after the listing was requested').to.equal(3);
    await answer([completed, { ...completed, id: 'c' }]);
    expect(store.tasks('completed')).to.have.length(2);
    pass(60_000);
    expect(requested()).to.equal(3);
  });

  it('lists limited tasks again if the counts of the queue have changed, also those whose acceptance was an event', async () => {
    const { store, answer, pass, requested } = startStore();
    const status = { accepted: 1, completed: 0, limited: 1, waiting: 0, in_flight: 0, limits: {} } as QueueStatus;
    store.apply([event('accepted', 'b')]);
    store.setQueue(status);
    pass(100);
    void store.load('limited');
    await answer([{ ...queued, status: 'limited' }]);
    expect(ids(store, 'limited')).to.deep.equal(['b']);
    store.setQueue(status);
    pass(60_000);
    expect(requested()).to.equal(1);
    store.setQueue({ ...status, limited: 0, waiting: 1 });
    pass(1_000);
    expect(requested()).to.equal(2);
    await answer([]);
    expect(ids(store, 'limited')).to.deep.equal([]);
  });

  it('lists again after a gap during a refresh, and after a gap while the page is hidden', async () => {
    const { store, answer, page, pass, requested } = startStore();
    void store.load('running');
    await answer([]);
    store.reload();
    pass(1_000);
    expect(requested()).to.equal(2);
    store.reload();
    await answer([]);
    pass(1_000);
    expect(requested()).to.equal(3);
    await answer([]);

    page.setVisible(false);
    store.reload();
    pass(60_000);
    expect(requested()).to.equal(3);
    page.setVisible(true);
    pass(1_000);
    expect(requested()).to.equal(4);
    await answer([running]);
    expect(ids(store, 'running')).to.deep.equal(['a']);
    pass(60_000);
    expect(requested()).to.equal(4);
  });
});
