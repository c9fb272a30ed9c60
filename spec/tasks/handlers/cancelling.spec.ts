import { expect } from 'chai';
import { until } from '../../support/until.ts';
import { returned, startHandlers } from './handling.ts';

const cancelled = { ended: 'cancelled' };

const handlers = `
  ok: () => 'ok',
  heed: (_, { signal, progress }) => new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
    progress(0);
  }),
  'throw another error': (_, { signal, progress }) => new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new PermanentError('it was told to stop')));
    progress(0);
  }),
  finish: (_, { signal, progress }) => new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(signal.reason.message));
    progress(0);
  }),
  'read late': async (_, task) => {
    task.progress(0);
    while (!task.signal.aborted) await new Promise(setImmediate);
    throw task.signal.reason;
  },
  ignore: (_, { progress }) => { progress(0); return new Promise(() => {}); },
  block(_, { progress }) { progress(0); for (;;); },
  'nack, then return': async (_, { signal, progress, nack }) => {
    progress(0);
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    nack();
    return 'returned';
  },
`;

describe('a handler whose task is cancelled', () => {
  for (const action of ['heed', 'throw another error', 'read late', 'nack, then return']) {
    it(`ends by itself, in its thread: ${action}`, async () => {
      const { run, cancel, reports, output } = await startHandlers(handlers, { TASK_CANCEL_GRACE_MS: '60000' });
      const outcome = run(action);
      await until(() => reports.length > 0);
      expect(cancel()).to.equal(false);
      expect(await outcome).to.deep.equal(cancelled);
      await run('ok');
      expect(output()).to.equal('ok');
    });
  }

  for (const action of ['ignore', 'block']) {
    it(`ends with its thread if it does not: ${action}`, async () => {
      const { run, cancel, reports } = await startHandlers(handlers, { TASK_CANCEL_GRACE_MS: '20' });
      const others = [run('ok'), run(action)];
      await until(() => reports.length > 0);
      cancel();
      expect(await Promise.all([...others, run('ok')])).to.deep.equal([returned, cancelled, returned]);
    });
  }

  it('is completed if it returns', async () => {
    const { run, cancel, reports, output } = await startHandlers(handlers, { TASK_CANCEL_GRACE_MS: '60000' });
    const outcome = run('finish');
    await until(() => reports.length > 0);
    cancel();
    expect(await outcome).to.deep.equal(returned);
    expect(output()).to.equal('the task was aborted: cancelled');
  });

  it('hurts no other handler: the next one has a signal of its own', async () => {
    const { run, cancel, reports, output } = await startHandlers(
      `${handlers} aborted: (_, { signal }) => signal.aborted,`,
      { TASK_CANCEL_GRACE_MS: '60000' },
    );
    const outcome = run('heed');
    await until(() => reports.length > 0);
    cancel();
    await outcome;
    expect(await run('aborted')).to.deep.equal(returned);
    expect(output()).to.equal(false);
  });

  it('has its signal aborted even if it is cancelled before it reads it', async () => {
    const { run, cancel, reports } = await startHandlers(
      `late: async (_, task) => {
        task.progress(0);
        await new Promise((resolve) => setTimeout(resolve, 50));
        if (task.signal.aborted) throw task.signal.reason;
      },`,
      { TASK_CANCEL_GRACE_MS: '60000' },
    );
    const outcome = run('late');
    await until(() => reports.length > 0);
    cancel();
    expect(await outcome).to.deep.equal(cancelled);
  });
});
