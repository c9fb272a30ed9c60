import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testTask } from 'ticker-and-tasks';
import handlers from './handlers.ts';

test('greet names the world by default', () => {
  assert.equal(handlers.greet({}), 'Hello, world!');
});

test('count reports its progress', async () => {
  const task = testTask();
  assert.deepEqual(await handlers.count.handler({ words: ['a', 'b', 'a', 'c'] }, task), { a: 2, b: 1, c: 1 });
  assert.deepEqual(
    task.reports.map(({ fraction }) => fraction),
    [0.25, 0.5, 0.75, 1],
  );
});

test('count refuses an empty list for good', async () => {
  await assert.rejects(handlers.count.handler({ words: [] }, testTask()), { name: 'PermanentError' });
});
