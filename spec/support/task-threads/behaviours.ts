/** A pool thread whose handler behaves as the task's `action` says. Used by the specs of the pool. */
import { threadId, workerData } from 'node:worker_threads';
import { PermanentError } from '../../../workers/handlers-api.ts';
import { poolFunction, type TaskHandler } from '../../../workers/run-batch.ts';
import { Gate } from './gate.ts';

const gate = new Gate((workerData as { gate?: SharedArrayBuffer } | null)?.gate);

const behaviours: Record<string, TaskHandler> = {
  return() {},
  'return later': () => new Promise((resolve) => setImmediate(resolve)),
  'ack, then wait'(_body, delivery) {
    delivery.ack();
    gate.pass();
  },
  'nack, then wait'(_body, delivery) {
    delivery.nack();
    gate.pass();
  },
  'ack, then raise'(_body, delivery) {
    delivery.ack();
    throw new Error('after the ack');
  },
  'ack, then exit'(_body, delivery) {
    delivery.ack();
    gate.pass();
    process.exit(1);
  },
  'nack, then return'(_body, delivery) {
    delivery.nack();
  },
  'ack, then nack'(_body, delivery) {
    delivery.ack();
    delivery.nack();
  },
  wait: () => gate.pass(),
  raise() {
    throw new Error('it failed');
  },
  'raise later': () => Promise.reject(new Error('it failed later')),
  'raise for good'() {
    throw new PermanentError('it will never work');
  },
  'raise null'() {
    throw null;
  },
  'raise undefined'() {
    throw undefined;
  },
  'raise text'() {
    throw 'just text';
  },
  'raise what has no text'() {
    throw Object.create(null);
  },
  'raise what cannot be copied'() {
    throw Object.assign(new Error(), { message: () => {} });
  },
  'tell the thread'() {
    throw new Error(String(threadId));
  },
  exit() {
    process.exit(1);
  },
  'exit as if all were well'() {
    process.exit(0);
  },
  hang() {
    for (;;);
  },
  'return, then block'() {
    setImmediate(() => gate.pass());
  },
  'take 100 ms': () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100),
  'never end': () => new Promise(() => {}),
  'eat memory'() {
    const meals: object[] = [];
    for (;;) meals.push(new Array(10_000).fill({}));
  },
  'raise outside'() {
    setImmediate(() => {
      throw new Error('nobody catches this');
    });
    return new Promise(() => {});
  },
};

export default poolFunction((body, delivery) => {
  const { action } = JSON.parse(body);
  return behaviours[action]?.(body, delivery);
});
