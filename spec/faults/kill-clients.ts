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

const REASONS = ['a', 'b', 'c', 'd'].map((name) => `hopeless ${name}`);
const NOT_NUMBERS = 'data.numbers must hold finite numbers only';

const kinds: readonly ((random: Random) => Kind)[] = [
  () => ({ action: 'sum', data: { numbers: [1, 2.5, -3] }, output: 0.5 }),
  () => ({ action: 'sum', data: { numbers: ['1'] }, reason: NOT_NUMBERS }),
  double,
  double,
  ({ below }) => {
    const data = { n: below(1000), times: 1 + below(2), delayMs: below(50), nacks: below(8) === 0 };
    return { action: 'flaky', data, output: data.n * 2 };
  },
  ({ pick }) => {
    const reason = pick(REASONS);
    return { action: 'hopeless', data: { reason }, reason };
  },
  ({ below }) => ({ action: 'wait', data: { ms: 20 + below(200) }, output: 'waited' }),
  ({ below }) => ({ action: 'once', data: { ms: below(5) }, output: 'once', reason: 'second run' }),
  ({ below }) => ({ action: 'once', data: { ms: below(5) }, output: 'once', reason: 'second run' }),
];

function double({ below }: Random): Kind {
  const n = below(1000);
  return { action: 'double', data: { n }, output: n * 2 };
}

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
    const task = random.pick(ledger.in('accepted', 'waiting', 'running').slice(-30).concat(NOBODY));
    if (task === NOBODY || task.sent.has('cancel')) continue;
    ledger.send(task, 'cancel');
    const answer = await answerTo(request(`${tasks}/tasks/${task.id}`, { method: 'DELETE' }));
    if (answer === undefined) return;
    if (answer.status === 204) ledger.answer(task, 'cancel');
    else if (answer.status === 202) ledger.answer(task, 'cancelling');
    else {
      ledger.refuse(task, 'cancel', answer.status);
      if (answer.status !== 409 && !ledger.wasAsked(task, 'purge')) {
        ledger.problem(task, `its cancellation is answered with ${answer.status}`);
      }
    }
  }
};

/** Placeholder that keeps a choice from an empty list. */
const NOBODY = {} as Accepted;

/** Redrives and purges the dead letters of earlier rounds: single ones, and lists, all with a reason, or all of them. */
export const operates: Client = async ({ tasks, ledger, random }) => {
  let letters = ledger.in('failed');
  const take = (count: number) => {
    const from = random.below(letters.length);
    return letters.splice(from, count);
  };
  while (letters.length > 0) {
    await setTimeout(random.below(80));
    const operation = random.pick(['redrive', 'redrive', 'purge'] as const);
    const choice = random.below(20);
    let chosen: Accepted[];
    let selection: object | undefined;
    if (choice < 14) chosen = take(1);
    else if (choice < 18) {
      chosen = take(1 + random.below(5));
      selection = { ids: chosen.map(({ id }) => id) };
    } else {
      const reason = choice === 18 || letters.length < 20 ? random.pick([...REASONS, NOT_NUMBERS]) : undefined;
      chosen = letters.filter(({ failure }) => reason === undefined || failure === reason);
      letters = letters.filter((letter) => !chosen.includes(letter));
      ledger.sendBulk({ operation, reason });
      selection = reason === undefined ? { all: true } : { reason };
    }
    if (!(await operate(tasks, ledger, operation, chosen, selection))) return;
  }
};

/**
 * Redrives or purges the dead letters that a selection matches, which are `letters`, and newer ones unless the selection lists ids.
 * Without a selection, redrives or purges a single one. Returns false without an answer.
 */
async function operate(
  tasks: string,
  ledger: KillLedger,
  operation: 'redrive' | 'purge',
  letters: readonly Accepted[],
  selection: object | undefined,
): Promise<boolean> {
  for (const letter of letters) ledger.send(letter, operation);
  const url = `${tasks}/dead-letters`;
  const [single] = letters as [Accepted];
  if (selection !== undefined) {
    const answer = await answerTo(post(`${url}/${operation}`, selection));
    if (answer === undefined) return false;
    expect(answer.status).to.equal(200);
    expect(answer.body.remaining).to.equal(0);
    const newer = 'ids' in selection ? 0 : Number.POSITIVE_INFINITY;
    expect(answer.body.count, JSON.stringify(selection)).to.be.within(letters.length, letters.length + newer);
  } else {
    const redrives = operation === 'redrive';
    const sent = redrives
      ? post(`${url}/${single.id}/retry`, {})
      : request(`${url}/${single.id}`, { method: 'DELETE' });
    const answer = await answerTo(sent);
    if (answer === undefined) return false;
    if (answer.status !== (redrives ? 202 : 204)) {
      ledger.problem(single, `its ${operation} is answered with ${answer.status}`);
      return true;
    }
  }
  for (const letter of letters) ledger.answer(letter, operation);
  return true;
}

/** Pauses and resumes the queue. A queue that is paused at the start stays paused throughout every fourth round. */
export const pauses: Client = async ({ tasks, ledger, random }) => {
  const set = async (paused: boolean) => {
    ledger.paused = undefined;
    ledger.idle = false;
    const answer = await answerTo(post(`${tasks}/queue/${paused ? 'pause' : 'resume'}`, {}));
    if (answer === undefined) return false;
    expect(answer.body).to.deep.equal({ paused });
    ledger.paused = paused;
    ledger.noteAll(paused ? 'paused' : 'resumed');
    return true;
  };
  if (ledger.paused && random.below(4) === 0) return;
  if (ledger.paused && !(await set(false))) return;
  if (random.below(5) > 1) return;
  await setTimeout(random.below(150));
  if ((await set(true)) && random.below(2) === 0) {
    await setTimeout(random.below(100));
    await set(false);
  }
};

/** Asserts that a new process knows what earlier ones answered: the pause, idempotency keys, and how tasks ended. */
export const remembers: Client = async ({ tasks, ledger, random }) => {
  const queue = await answerTo(request(`${tasks}/queue`));
  if (queue === undefined) return;
  if (ledger.paused !== undefined) expect(queue.body.paused, 'paused').to.equal(ledger.paused);
  ledger.paused = queue.body.paused;
  ledger.idle = queue.body.paused;
  const keys = [...ledger.keys.keys()];
  for (let count = 0; count < 3 && keys.length > 0; count++) {
    const key = random.pick(keys.slice(-200));
    const task = ledger.keys.get(key) as Accepted;
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
