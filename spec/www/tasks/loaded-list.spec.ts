import { expect } from 'chai';
import { PAGE_SIZE } from '../../../www/tasks/board-api.ts';
import type { BoardTask, State } from '../../../www/tasks/board-task.ts';
import { LoadedList, MAX_LISTED } from '../../../www/tasks/loaded-list.ts';

/** Creates a list over a map of tasks. */
function startList(state: State, query = {}) {
  const tasks = new Map<string, BoardTask>();
  const kept = new Set<string>();
  const list = new LoadedList(state, query, { find: (id) => tasks.get(id), isKept: (id) => kept.has(id) });
  const put = (id: string, fields: Partial<BoardTask> = {}) => {
    tasks.set(id, { id, action: 'a', state, payload: '{}', result: '{}', ...fields });
    return id;
  };
  const page = (from: number, size = PAGE_SIZE) => Array.from({ length: size }, (_, i) => put(`t${from + i}`));
  return { list, kept, put, page, ids: () => list.tasks.map(({ id }) => id) };
}

describe('a loaded list of tasks', () => {
  it('adds a queued task at its end, unless the service has more, and removes a task that leaves the state', () => {
    const { list, put, page, ids } = startList('queued');
    list.replace(page(0, 2), false, []);
    list.update(put('new'));
    list.update(put('t0', { state: 'running' }));
    expect(ids()).to.deep.equal(['t1', 'new']);
    expect(list.isIncomplete).to.equal(false);
    list.replace(page(1), true, []);
    list.update(put('beyond'));
    expect(list.ids).to.not.include('beyond');
    list.update(put('t1', { state: 'running' }));
    expect(list.isIncomplete).to.equal(true);
  });

  it('puts completed tasks in front by the second of their acceptance, failed ones in front, and retrying ones by due time', () => {
    const byAcceptance = { c: 1_000, b: 3_000, same: 3_500, older: 2_000, unknown: undefined };
    for (const [state, times, expected] of [
      ['completed', byAcceptance, ['unknown', 'same', 'b', 'older', 'c']],
      ['retrying', { late: 9, early: 1, middle: 5 }, ['early', 'middle', 'late']],
      ['failed', { first: undefined, second: undefined }, ['second', 'first']],
    ] as [State, Record<string, number | undefined>, string[]][]) {
      const { list, put, ids } = startList(state);
      for (const [id, ms] of Object.entries(times))
        list.update(put(id, ms === undefined ? {} : { [state === 'retrying' ? 'dueAtMs' : 'acceptedAtMs']: ms }));
      expect(ids(), state).to.deep.equal(expected);
    }
  });

  it('holds one page, and the kept tasks', () => {
    const { list, kept, put, page, ids } = startList('completed');
    list.replace(page(0), true, []);
    kept.add('t99');
    for (let i = 0; i < 200; i++) list.update(put(`new${i}`));
    expect(ids()).to.have.length(PAGE_SIZE + 1);
    expect(ids().at(-1)).to.equal('t99');
    list.replace(page(500), true, []);
    expect(ids().at(-1)).to.equal('t99');
    kept.clear();
    list.replace(page(500), true, []);
    expect(ids()).to.have.length(PAGE_SIZE);
  });

  it('keeps a task behind older pages when the newest page is replaced, until it leaves the state', () => {
    const { list, kept, put, page, ids } = startList('completed');
    list.replace(page(900, 1), false, []);
    kept.add('t900');
    list.replace(page(0), true, []);
    list.append('t99', page(100), true);
    list.replace(page(0), true, []);
    expect(ids().at(-1)).to.equal('t900');
    expect(list.last).to.equal('t199');
    list.update(put('t900', { state: 'queued' }));
    expect(list.ids).to.not.include('t900');
  });

  it('appends an older page also if tasks were added during the request, and ignores a page that would leave a gap', () => {
    const { list, put, page, ids } = startList('completed');
    list.replace(page(0), true, []);
    list.makeRoom();
    for (let i = 0; i < 50; i++) list.update(put(`new${i}`));
    list.append('t99', page(100), true);
    expect(ids().slice(50)).to.deep.equal(page(0, 200));
    list.replace(page(500), true, []);
    list.append('t199', page(200), true);
    expect(ids()).to.deep.equal(page(500));
    expect(list.more).to.equal(true);
  });

  it('appends older pages up to its bound, and keeps them if the newest page still adjoins', () => {
    const { list, put, page, ids } = startList('completed');
    list.replace(page(0), true, []);
    list.append('t99', page(100), true);
    list.update(put('new'));
    list.replace([...page(0, 1), ...page(2, PAGE_SIZE - 1)], true, []);
    expect(ids()).to.have.length(2 * PAGE_SIZE - 2);
    for (let from = 200; from < 2_000; from += PAGE_SIZE) list.append(list.last ?? '', page(from), true);
    expect(ids()).to.have.length(MAX_LISTED);
    expect(list.more).to.equal(false);
    list.replace(page(9_000), true, []);
    expect(ids()).to.have.length(PAGE_SIZE);
  });

  it('has only tasks that match its query, including those that events added during the request', () => {
    const { list, put, ids } = startList('failed', { reason: 'no' });
    list.update(put('other', { reason: 'yes' }));
    list.update(put('fits', { reason: 'no' }));
    list.replace([put('listed', { reason: 'no' })], false, ['fits']);
    expect(ids()).to.deep.equal(['fits', 'listed']);
  });
});
