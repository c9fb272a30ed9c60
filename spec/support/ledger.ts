import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { post, type RunningServices, request } from './program.ts';
import type { Random } from './seed.ts';

/** What a task is to come to: its output, or undefined for one that cannot succeed. */
type Output = unknown;

interface Kind {
  submission: { action: string; data: object };
  output: Output;
}

/** One task of every kind, the large one larger than a page of a database. */
const kinds: readonly Kind[] = [
  { submission: { action: 'uppercase', data: { text: 'straße' } }, output: 'STRASSE' },
  { submission: { action: 'sum', data: { numbers: [1, 2.5, -3] } }, output: 0.5 },
  { submission: { action: 'anything', data: { filler: 'x'.repeat(10_000) } }, output: 'processed' },
  { submission: { action: 'sum', data: { numbers: ['1'] } }, output: undefined },
];

/** Remembers every task that was accepted, and accounts for each at the end. */
export class Ledger {
  readonly #expected = new Map<string, Output>();

  /** How many were accepted. */
  get size(): number {
    return this.#expected.size;
  }

  /**
   * Submits a task of a random kind, or of the one at `index`.
   *
   * @returns the status of the answer; undefined when there was none
   */
  async submit(tasks: string, random: Random, index = random.below(kinds.length)): Promise<number | undefined> {
    const { submission, output } = kinds[index] as Kind;
    const answer = await post(`${tasks}/tasks`, submission).catch(() => undefined);
    if (answer?.status === 202) this.#expected.set(answer.body.id, output);
    else if (answer !== undefined) expect(answer.body).to.deep.equal({ error: 'failed to queue task' });
    return answer?.status;
  }

  /** Submits tasks, `clients` at a time, until there is no answer or `over` says so. */
  async flood(tasks: string, random: Random, { clients = 8, over = (): boolean => false } = {}): Promise<void> {
    const client = async () => {
      while (!over() && (await this.submit(tasks, random)) !== undefined);
    };
    await Promise.all(Array.from({ length: clients }, client));
  }

  /**
   * Waits until every accepted task has come to its end, and asserts that it is the right one: its output, or failed. By what
   * the service says alone, whatever it keeps and wherever.
   *
   * @returns how many have failed
   */
  async accountedFor(tasks: string): Promise<number> {
    let failed = 0;
    for (const [id, output] of this.#expected) {
      const { status, result } = await endOf(tasks, id);
      if (status === 'failed') failed += 1;
      else expect(JSON.parse(result).output, `output of ${id}`).to.equal(output);
    }
    return failed;
  }

  /**
   * Waits until the queue holds nothing that is not done, and asserts that every accepted task came to its end once: as a
   * row with its output, or as a dead letter.
   *
   * @param durable whether the queue is on disk, where the dead letters of others can be told from these
   */
  async settled({ tasks }: RunningServices, dataDir: string, durable = true): Promise<void> {
    let counts = await queueCounts(tasks);
    while (counts.waiting + counts.delayed + counts.in_flight > 0) {
      await setTimeout(50);
      counts = await queueCounts(tasks);
    }
    const rows = new Map<string, Output>();
    for (const { id, result } of read(join(dataDir, 'tasks.db'), 'SELECT id, result FROM tasks')) {
      rows.set(id as string, JSON.parse(result as string).output);
    }
    const failed: string[] = [];
    for (const [id, output] of this.#expected) {
      if (rows.has(id)) expect(rows.get(id), `output of ${id}`).to.equal(output);
      else {
        expect((await request(`${tasks}/tasks/${id}`)).body).to.include({ id, status: 'failed' });
        failed.push(id);
      }
    }
    expect(counts.dropped).to.equal(0);
    if (!durable) {
      expect(counts.dead, 'dead letters').to.be.at.least(failed.length);
      return;
    }
    // Those whose answer did not arrive.
    const others = read(join(dataDir, 'queue.db'), 'SELECT id FROM dead_letters').filter(
      ({ id }) => !this.#expected.has(id as string) && !rows.has(id as string),
    );
    expect(counts.dead, 'dead letters of tasks without a row').to.equal(failed.length + others.length);
  }
}

/** The counts of the queue, which add up at any time. */
export async function queueCounts(
  tasks: string,
): Promise<Record<'waiting' | 'delayed' | 'in_flight' | 'dead' | 'dropped', number>> {
  const { status, body } = await request(`${tasks}/queue`);
  expect(status).to.equal(200);
  const { accepted, completed, dead, dropped, waiting, delayed, in_flight } = body;
  expect(completed + dead + dropped + waiting + delayed + in_flight, 'accounted for').to.equal(accepted);
  return body;
}

/** A task as it is told of when it is done, or given up. */
async function endOf(tasks: string, id: string): Promise<{ status: string; result: string }> {
  for (;;) {
    const { status, body } = await request(`${tasks}/tasks/${id}`);
    // 500 while its row cannot be looked for.
    if (status !== 500) expect(status, `accepted, and not known: ${id}`).to.equal(200);
    if (body.status === 'completed' || body.status === 'failed') return body;
    await setTimeout(20);
  }
}

function read(path: string, sql: string): Record<string, unknown>[] {
  const database = new DatabaseSync(path, { timeout: 5000 });
  try {
    return database.prepare(sql).all();
  } finally {
    database.close();
  }
}
