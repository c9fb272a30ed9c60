import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { runOn } from './migrated-folder.ts';
import { post, type RunningServices, request, untilAnswer } from './program.ts';
import type { Random } from './seed.ts';
import { eventually, until } from './until.ts';

/** One task of every kind, without an output if it always fails. The large one exceeds a database page. */
const kinds = [
  { submission: { action: 'uppercase', data: { text: 'straße' } }, output: 'STRASSE' },
  { submission: { action: 'sum', data: { numbers: [1, 2.5, -3] } }, output: 0.5 },
  { submission: { action: 'anything', data: { filler: 'x'.repeat(10_000) } }, output: 'processed' },
  { submission: { action: 'sum', data: { numbers: ['1'] } }, output: undefined },
];

/** Records every accepted task and checks at the end that each was settled correctly. */
export class Ledger {
  /** Expected outputs by task id, undefined for a task that always fails. */
  readonly #expected = new Map<string, unknown>();

  get size(): number {
    return this.#expected.size;
  }

  /** Submits a task of a random kind, or of the kind at `index`. Returns the status, if there is a response. */
  async submit(tasks: string, random: Random, index = random.below(kinds.length)): Promise<number | undefined> {
    const { submission, output } = kinds[index] as (typeof kinds)[number];
    const answer = await post(`${tasks}/tasks`, submission).catch(() => undefined);
    if (answer?.status === 202) this.#expected.set(answer.body.id, output);
    else if (answer !== undefined) expect(answer.body).to.deep.equal({ error: 'failed to queue task' });
    return answer?.status;
  }

  /** Submits tasks with clients until a response is missing, or until the returned function, which awaits the last ones. */
  flood(tasks: string, random: Random, clients = 4, pauseMs = 0): () => Promise<void> {
    let isOver = false;
    const client = async () => {
      while (!isOver && (await this.submit(tasks, random)) !== undefined) if (pauseMs > 0) await setTimeout(pauseMs);
    };
    const all = Promise.all(Array.from({ length: clients }, client));
    return async () => {
      isOver = true;
      await all;
    };
  }

  async grows(count: number): Promise<void> {
    const goal = this.size + count;
    await until(() => this.size >= goal);
  }

  /** Waits until every accepted task is settled as expected. Dead letters of tasks that always fail may be evicted. */
  async accountedFor(tasks: string): Promise<void> {
    for (const [id, output] of this.#expected) {
      const { status, result } = await endOf(tasks, id, output === undefined);
      if (status === 'completed') expect(JSON.parse(result).output, `output of ${id}`).to.equal(output);
      else expect(output, `expected output of ${id}, which failed`).to.equal(undefined);
    }
  }

  /** Waits until the queue is empty. Asserts that each accepted task was settled once, as a row or as a dead letter. */
  async settled({ tasks, env }: RunningServices, durable = true): Promise<void> {
    const counts = await untilIdle(tasks);
    const rows = new Map(runOn(env.DATA_DIR, 'SELECT id, result FROM tasks').map(({ id, result }) => [id, result]));
    let failed = 0;
    for (const [id, output] of this.#expected) {
      if (rows.has(id)) {
        expect(JSON.parse(rows.get(id) as string).output, `output of ${id}`).to.equal(output);
        continue;
      }
      expect((await request(`${tasks}/tasks/${id}`)).body).to.include({ id, status: 'failed' });
      failed += 1;
    }
    expect(counts.dropped).to.equal(0);
    // Dead letters of submissions that were accepted although their response was lost. Only a queue on disk names them.
    const dead = durable ? runOn(env.DATA_DIR, "SELECT id FROM messages WHERE state = 'failed'") : [];
    const others = dead.filter(({ id }) => !this.#expected.has(id as string) && !rows.has(id));
    if (durable) expect(counts.dead, 'dead letters of tasks without a row').to.equal(failed + others.length);
    else expect(counts.dead, 'dead letters').to.be.at.least(failed);
  }
}

/** Returns the queue's counts after asserting that they add up. */
export async function queueCounts(tasks: string) {
  const { status, body } = await request(`${tasks}/queue`);
  expect(status).to.equal(200);
  const { accepted, completed, dead, dropped, cancelled, waiting, delayed, in_flight } = body;
  expect(completed + dead + dropped + cancelled + waiting + delayed + in_flight, 'accounted for').to.equal(accepted);
  return body;
}

export function untilIdle(tasks: string) {
  const look = () => queueCounts(tasks);
  return eventually(look, ({ waiting, delayed, in_flight }) => waiting + delayed + in_flight === 0);
}

/** Waits until a task is completed or failed. A task that `fails` is unknown once the bound on dead letters has evicted it. */
async function endOf(tasks: string, id: string, fails: boolean): Promise<{ status: string; result: string }> {
  const { status, body } = await untilAnswer(`${tasks}/tasks/${id}`, ({ status, body }) => {
    // The status is 500 while the row cannot be read.
    if (status !== 500) expect(status, `accepted, but unknown: ${id}`).to.be.oneOf(fails ? [200, 404] : [200]);
    return status === 404 || body.status === 'completed' || body.status === 'failed';
  });
  if (status === 404) expect((await queueCounts(tasks)).dropped, 'evicted dead letters').to.be.above(0);
  return status === 404 ? { status: 'failed', result: '' } : body;
}
