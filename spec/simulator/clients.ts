import type { DeadLetterSelection, Published, Submission as StoreSubmission } from '../../db/task-store.ts';
import type { Queue } from '../../main/tasks/queue.ts';
import { parseSubmission } from '../../workers/submissions/parse-submission.ts';
import type { History, Journal, Promised } from './history.ts';
import type { Mood } from './pool.ts';
import type { SeededRandom } from './random.ts';

/** A submission that a client has sent. */
export interface Submission {
  name: string;
  mood: Mood;
  action: string;
  key: string | undefined;
  /** Fields beside `action` and `data`. */
  options: { delay?: number; run_at?: number; priority?: number };
}

/** A process that receives requests. */
export interface Target {
  readonly queue: Queue;
  readonly newTaskId: () => string;
  readonly isDead: boolean;
}

export interface ClientsOptions {
  journal: Journal;
  /** What is known of the tasks, from which clients choose. */
  book: History;
  /** Returns the time in milliseconds since the epoch. */
  now: () => number;
  /** Behaviour of the handlers. */
  moods: readonly Mood[];
  /** Whether tasks are scheduled and have priorities. */
  schedules: boolean;
  /** Chooses the process of a request. */
  target: (random: SeededRandom) => Target | undefined;
}

/** Clients of the queue. They call it as the routers do. */
export class Clients {
  readonly #options: ClientsOptions;
  /** Submissions by the task ids that the service gave them. */
  readonly #submissions = new Map<string, Submission>();
  /** Submissions with a key, which a client may repeat. */
  readonly #repeatable: Submission[] = [];
  readonly #waiting = new Set<{ what: string; target: Target }>();

  constructor(options: ClientsOptions) {
    this.#options = options;
  }

  /** Descriptions of the requests without an answer. Requests to a dead process are lost. */
  get unanswered(): string[] {
    for (const request of this.#waiting) if (request.target.isDead) this.#waiting.delete(request);
    return [...this.#waiting].map(({ what }) => what);
  }

  readonly submissionOf = (id: string): Submission => this.#submissions.get(id) ?? UNKNOWN;

  submit(name: string, random: SeededRandom): void {
    this.#send(this.#newSubmission(name, random), random);
  }

  #newSubmission(name: string, random: SeededRandom): Submission {
    const submission: Submission = {
      name,
      mood: this.#mood(random),
      action: random.chance(0.2) ? 'twice' : 'work',
      key: random.chance(0.4) ? `k${random.below(30)}` : undefined,
      options: this.#options.schedules ? this.#timing(random) : {},
    };
    if (submission.key !== undefined) this.#repeatable.push(submission);
    return submission;
  }

  #timing(random: SeededRandom): Submission['options'] {
    const delay = random.pick([0, 0.05, 1, 20, 600]);
    const when = random.pick([{}, {}, { delay }, { run_at: this.#options.now() / 1000 + delay }]);
    return { ...when, ...(random.chance(0.5) && { priority: random.between(1, 5) }) };
  }

  #mood(random: SeededRandom): Mood {
    const mood = random.pick(this.#options.moods);
    // Each death of a process takes long to simulate.
    return mood === 'deadly' && random.chance(0.7) ? 'quick' : mood;
  }

  submitMany(name: string, random: SeededRandom): void {
    const names = Array.from({ length: random.between(2, 12) }, (_, index) => `${name}.${index + 1}`).reverse();
    if (this.#options.schedules && random.chance(0.5)) this.#sendBatch(names, random);
    else for (const each of names) this.submit(each, random);
  }

  /** Sends a submission again, as a client does that has seen no answer, or with other content. */
  repeat(name: string, random: SeededRandom): void {
    const recent = this.#repeatable.slice(-8);
    if (recent.length > 0) this.#send({ ...random.pick(recent), name }, random);
  }

  cancel(random: SeededRandom): void {
    // Mostly unfinished tasks, and of those the newest.
    const { book } = this.#options;
    const tasks = [...book.tasks.values()];
    const unfinished = book.in('waiting', 'running');
    const task = random.chance(0.85) && unfinished.length > 0 ? random.pick(unfinished) : random.pick(tasks.slice(-30));
    if (task === undefined) return;
    this.#request(random, `cancel ${task.name}`, async ({ queue }) => {
      const answer = await queue.cancel(task.id);
      if (answer !== 'cancelled' && answer !== 'requested') return { answer: answer ?? 'unknown' };
      return { answer, promised: [[task.id, answer === 'requested' ? 'cancelling' : 'cancelled']] };
    });
  }

  runNow(random: SeededRandom): void {
    const tasks = this.#options.book.in('waiting');
    if (tasks.length === 0) return;
    const { id, name } = random.pick(tasks);
    this.#request(random, `run ${name}`, async ({ queue }) => ({ answer: (await queue.runNow(id)) ?? 'unknown' }));
  }

  redrive(random: SeededRandom): void {
    const selection = this.#selection(random);
    this.#request(random, 'redrive', async ({ queue }) => {
      const { done, remaining } = await queue.redrive(selection);
      return { answer: `${done.length} done, ${remaining} left`, promised: done.map(({ id }) => [id, 'redriven']) };
    });
  }

  purge(random: SeededRandom): void {
    const selection = this.#selection(random);
    this.#request(random, 'purge', async ({ queue }) => {
      const { done, remaining } = await queue.purge(selection);
      return { answer: `${done.length} done, ${remaining} left`, promised: done.map(({ id }) => [id, 'purged']) };
    });
  }

  pause(random: SeededRandom): void {
    this.#request(random, 'pause', async ({ queue }) => {
      await queue.pause();
      return { answer: 'paused' };
    });
  }

  resume(random: SeededRandom): void {
    this.#request(random, 'resume', async ({ queue }) => {
      await queue.resume();
      return { answer: 'resumed' };
    });
  }

  #send(submission: Submission, random: SeededRandom): void {
    const { name, mood, action, key, options } = submission;
    const details = [mood, ...(action === 'twice' ? ['two attempts'] : []), ...(key ? [key] : [])];
    for (const [option, value] of Object.entries(options)) details.push(`${option} ${value}`);
    const text = `submit ${name} (${details.join(', ')})`;
    this.#request(random, text, async ({ queue, newTaskId }) => {
      const { message, key: idempotency } = this.#parse(submission, newTaskId());
      const published = await queue.publish(message, idempotency);
      const known = published.isNew ? 'accepted' : `accepted before as ${this.submissionOf(published.id).name}`;
      return { answer: known, promised: [[published.id, 'accepted']] };
    });
  }

  #sendBatch(names: readonly string[], random: SeededRandom): void {
    const submissions = names.map((name) => this.#newSubmission(name, random));
    this.#request(random, `submit ${names} together`, async ({ queue, newTaskId }) => {
      const results = await queue.publishAll(submissions.map((each) => this.#parse(each, newTaskId())));
      const reused = results.filter((each) => each instanceof Error).length;
      if (reused > 0) return { answer: `refused because of ${reused} keys` };
      return { answer: 'accepted', promised: (results as Published[]).map(({ id }) => [id, 'accepted']) };
    });
  }

  #parse(submission: Submission, id: string): StoreSubmission {
    const { mood, action, key, options } = submission;
    this.#submissions.set(id, submission);
    const bytes = Buffer.from(JSON.stringify({ action, data: { mood }, ...options }));
    const parsed = parseSubmission({ bytes, id, now: this.#options.now(), hasKey: key !== undefined });
    if ('error' in parsed) throw new Error(parsed.error);
    const { message, fingerprint } = parsed;
    return { message, key: key && fingerprint ? { key, fingerprint } : undefined };
  }

  #selection(random: SeededRandom): DeadLetterSelection {
    const letters = this.#options.book.in('failed');
    const letter = letters.length > 0 ? random.pick(letters) : undefined;
    const one = letter === undefined ? { ids: [] } : { ids: [letter.id] };
    const reason = letter?.reason === undefined ? { all: true as const } : { reason: letter.reason };
    return random.pick<DeadLetterSelection>([one, reason, { all: true }]);
  }

  #request(
    random: SeededRandom,
    what: string,
    send: (target: Target) => Promise<{ answer: string; promised?: [id: string, what: Promised][] }>,
  ): void {
    const { target: choose, journal, book } = this.#options;
    const target = choose(random);
    if (target === undefined || target.isDead) return;
    const request = { what, target };
    this.#waiting.add(request);
    journal.note(`    ${what}`);
    const isLate = () => target.isDead || !this.#waiting.delete(request);
    send(target).then(
      ({ answer, promised = [] }) => {
        if (isLate()) return;
        journal.note(`    ${what}: ${answer}`);
        for (const [id, told] of promised) book.promise(id, told);
      },
      (error: Error) => {
        if (!isLate()) journal.note(`    ${what}: ${error.name}: ${error.message}`);
      },
    );
  }
}

const UNKNOWN: Submission = { name: 'unknown', mood: 'quick', action: 'work', key: undefined, options: {} };
