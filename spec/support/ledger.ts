import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { afterTest } from './cleanup.ts';
import { post } from './program.ts';
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
  async flood(tasks: string, random: Random, { clients = 8, over = () => false } = {}): Promise<void> {
    const client = async () => {
      while (!over() && (await this.submit(tasks, random)) !== undefined);
    };
    await Promise.all(Array.from({ length: clients }, client));
  }

  /**
   * Waits until every accepted task has come to its end, and asserts that each did so once: as a row with its output, or
   * as a dead letter.
   *
   * @param dead ids of the dead letters, where they are not in `queue.db`
   */
  async settled(dataDir: string, dead: () => readonly string[] = deadLettersOf(dataDir)): Promise<void> {
    const rows = new DatabaseSync(join(dataDir, 'tasks.db'), { timeout: 5000 });
    afterTest(() => rows.close());
    const all = rows.prepare('SELECT id, result FROM tasks');
    for (;;) {
      const results = new Map(all.all().map(({ id, result }) => [id as string, JSON.parse(result as string).output]));
      const buried = dead();
      const ended = new Set([...results.keys(), ...buried]);
      if ([...this.#expected.keys()].some((id) => !ended.has(id))) {
        await setTimeout(50);
        continue;
      }
      expect(ended.size, 'ended once').to.equal(results.size + buried.length);
      for (const [id, output] of this.#expected) {
        if (results.has(id)) expect(results.get(id)).to.equal(output);
      }
      return;
    }
  }

  /** Ids of all that were accepted. */
  get ids(): string[] {
    return [...this.#expected.keys()];
  }
}

/** Reads the dead letters of the durable queue. */
function deadLettersOf(dataDir: string): () => string[] {
  const queue = new DatabaseSync(join(dataDir, 'queue.db'), { timeout: 5000 });
  afterTest(() => queue.close());
  const letters = queue.prepare('SELECT id FROM dead_letters');
  return () => letters.all().map(({ id }) => id as string);
}
