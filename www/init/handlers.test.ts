import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TaskContext } from 'ticker-and-tasks';
import handlers from './handlers.ts';

/** The part of a task that the handlers use. */
function testTask(progress: TaskContext['progress'] = () => {}): TaskContext {
  return { progress, signal: new AbortController().signal } as TaskContext;
}

test('greet names the world by default', () => {
  assert.equal(handlers.greet({}), 'Hello, world!');
});

test('count reports its progress', async () => {
  const fractions: number[] = [];
  const task = testTask((fraction) => fractions.push(fraction));
  assert.deepEqual(await handlers.count.handler({ words: ['a', 'b', 'a', 'c'] }, task), { a: 2, b: 1, c: 1 });
  assert.deepEqual(fractions, [0.25, 0.5, 0.75, 1]);
});

test('count refuses an empty list for good', async () => {
  await assert.rejects(handlers.count.handler({ words: [] }, testTask()), { name: 'PermanentError' });
});
