import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { type HttpResponse, post, request } from '../support/program.ts';
import type { Random } from '../support/seed.ts';
import type { Accepted, KillLedger, Kind } from './kill-ledger.ts';

/** One client of a process that is about to be killed. It ends with the first request without an answer. */
export type Client = (target: {
  tasks: string;
  ledger: KillLedger;
  random: Random;
  isOver(): boolean;
}) => Promise<void>;

/** Handlers of the tasks. `flaky` fails `times` times before it returns. */
export const HANDLERS = `
  import { setTimeout } from 'node:timers/promises';
  export default {
    double: ({ n }) => n * 2,
    flaky: { backoff: { firstMs: 300 }, handler({ n, times, delayMs, nacks }, { attempt, nack }) {
      if (attempt > times) return n * 2;
      if (!nacks) throw new RetryAfter(delayMs, 'not yet');
      nack();
    } },
    hopeless({ reason }) { throw new PermanentError(reason); },
    wait: ({ ms }, { signal }) => setTimeout(ms, 'waited', { signal }),
  };`;

const kinds: readonly ((random: Random) => Kind)[] = [
  () => ({ action: 'sum', data: { numbers: [1, 2.5, -3] }, output: 0.5 }),
  () => ({ action: 'sum', data: { numbers: ['1'] }, reason: 'data.numbers must hold finite numbers only' }),
  ({ below }) => {
    const data = { n: below(1000) };
    return { action: 'double', data, output: data.n * 2 };
  },
  ({ below }) => {
    const data = { n: below(1000), times: 1 + below(2), delayMs: below(50), nacks: below(8) === 0 };
    return { action: 'flaky', data, output: data.n * 2 };
  },
  ({ pick }) => {
    const reason = pick(['hopeless', 'more hopeless']);
    return { action: 'hopeless', data: { reason }, reason };
  },
  ({ below }) => ({ action: 'wait', data: { ms: 20 + below(200) }, output: 'waited' }),
];

/** Returns the response, or undefined if the process died first. */
const answerTo = (response: Promise<HttpResponse>) => response.catch(() => undefined);

/** Submits tasks, every fourth with an idempotency key. */
export const submits: Client = async ({ tasks, ledger, random }) => {
  for (;;) {
    const kind = random.pick(kinds)(random);
    const key = random.below(4) === 0 ? `key-${ledger.round}-${random.below(2 ** 31)}` : undefined;
    const answer = await submit(tasks, kind, key);
    if (answer === undefined) return;
    expect(answer.status).to.equal(202);
    const task = ledger.accept(answer.body.id, kind);
    if (key !== undefined) ledger.keys.set(key, task);
    await setTimeout(random.below(20));
  }
};

function submit(tasks: string, { action, data }: Kind, key?: string): Promise<HttpResponse | undefined> {
  const headers = key === undefined ? {} : { 'Idempotency-Key': key };
  return answerTo(request(`${tasks}/tasks`, { method: 'POST', body: JSON.stringify({ action, data }), headers }));
}

/** Cancels tasks that were accepted recently. */
export const cancels: Client = async ({ tasks, ledger, random, isOver }) => {
  while (!isOver()) {
    await setTimeout(random.below(60));
    const recent = ledger.in('accepted', 'waiting', 'running').slice(-30);
    const task = recent[random.below(recent.length + 1)];
    if (task === undefined || task.sent.has('cancel')) continue;
    ledger.send(task, 'cancel');
    const answer = await answerTo(request(`${tasks}/tasks/${task.id}`, { method: 'DELETE' }));
    if (answer === undefined) return;
    if (answer.status === 204) ledger.answer(task, 'cancel');
    else if (answer.status === 202) ledger.answer(task, 'cancelling');
    else {
      ledger.refuse(task, 'cancel', answer.status);
      if (answer.status !== 409 && !task.sent.has('purge'))
        ledger.problem(task, `its cancellation is answered with ${answer.status}`);
    }
  }
};

/** Redrives and purges the dead letters of earlier rounds. */
export const operates: Client = async ({ tasks, ledger, random }) => {
  const letters = ledger.in('failed');
  while (letters.length > 0) {
    await setTimeout(random.below(80));
    const [letter] = letters.splice(random.below(letters.length), 1) as [Accepted];
    const operation = random.pick(['redrive', 'redrive', 'purge'] as const);
    ledger.send(letter, operation);
    const url = `${tasks}/dead-letters/${letter.id}`;
    const sent = operation === 'redrive' ? post(`${url}/retry`, {}) : request(url, { method: 'DELETE' });
    const answer = await answerTo(sent);
    if (answer === undefined) return;
    if (answer.status === (operation === 'redrive' ? 202 : 204)) ledger.answer(letter, operation);
    else ledger.problem(letter, `its ${operation} is answered with ${answer.status}`);
  }
};

/** Pauses and resumes the queue. A queue that is paused at the start stays paused throughout every fourth round. */
export const pauses: Client = async ({ tasks, ledger, random }) => {
  const set = async (paused: boolean) => {
    ledger.paused = undefined;
    const answer = await answerTo(post(`${tasks}/queue/${paused ? 'pause' : 'resume'}`, {}));
    if (answer === undefined) return false;
    expect(answer.body).to.deep.equal({ paused });
    ledger.paused = paused;
    return true;
  };
  if (ledger.paused && random.below(4) === 0) return;
  if (ledger.paused && !(await set(false))) return;
  if (random.below(5) > 1) return;
  await setTimeout(random.below(150));
  if (!(await set(true)) || random.below(2) > 0) return;
  await setTimeout(random.below(100));
  await set(false);
};

/** Asserts that a new process knows what earlier ones answered: the pause, idempotency keys, and how tasks ended. */
export const remembers: Client = async ({ tasks, ledger, random }) => {
  const queue = await answerTo(request(`${tasks}/queue`));
  if (queue === undefined) return;
  if (ledger.paused !== undefined) expect(queue.body.paused, 'paused').to.equal(ledger.paused);
  ledger.paused = queue.body.paused;
  const keys = [...ledger.keys].slice(-200);
  for (let count = 0; count < 3 && keys.length > 0; count++) {
    const [key, task] = random.pick(keys);
    const answer = await submit(tasks, task.kind, key);
    if (answer === undefined) return;
    if (answer.status !== 202 || answer.body.id !== task.id) ledger.problem(task, `its key gives ${answer.body.id}`);
  }
  for (const state of ['completed', 'gone'] as const) {
    const ended = ledger.in(state).slice(-200);
    if (ended.length === 0) continue;
    const task = random.pick(ended);
    const answer = await answerTo(request(`${tasks}/tasks/${task.id}`));
    if (answer === undefined) return;
    const found = answer.status === 404 ? 'gone' : answer.body.status;
    if (found !== state) ledger.problem(task, `is reported as ${found}`);
  }
};
