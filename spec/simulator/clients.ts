import type { SearchFilter } from '../../db/task-rows.ts';
import type { Published, Submission as StoreSubmission } from '../../db/task-store.ts';
import { readDefinition } from '../../main/tasks/schedules/definition.ts';
import { parseSubmission } from '../../workers/submissions/parse-submission.ts';
import { CALLBACK_HOST } from './callbacks.ts';
import type { History, KnownTask, Promised } from './history.ts';
import type { Mood } from './pool.ts';
import type { Process } from './process.ts';
import type { SeededRandom } from './random.ts';
import { scheduleFields } from './schedules.ts';
import type { World } from './world.ts';

/** A submission that a client has sent. */
export interface Submission {
  name: string;
  mood: Mood;
  action: string;
  key: string | undefined;
  /** Fields beside `action` and `data`. */
  options: { delay?: number; run_at?: number; priority?: number; limit_key?: string; callback_url?: string };
}

interface Answer {
  answer: string;
  /** Facts about tasks in the answer. */
  promised: [id: string, what: Promised][];
}

/** Clients of the queue. They call it as the routers do. */
export class Clients {
  readonly #world: World;
  /** What is known of the tasks, from which clients choose. */
  readonly #history: History;
  /** Chooses the process of a request. */
  readonly #target: (random: SeededRandom) => Process | undefined;
  /** Submissions with a key, which a client may repeat. */
  readonly #repeatable: Submission[] = [];
  readonly #waiting = new Set<{ what: string; target: Process }>();

  constructor(world: World, history: History, target: (random: SeededRandom) => Process | undefined) {
    this.#world = world;
    this.#history = history;
    this.#target = target;
  }

  /** Descriptions of the requests without an answer. Requests to a dead process are lost. */
  get unanswered(): string[] {
    for (const request of this.#waiting) if (request.target.isDead) this.#waiting.delete(request);
    return [...this.#waiting].map(({ what }) => what);
  }

  submit(name: string, random: SeededRandom): void {
    this.#send(this.#newSubmission(name, random), random);
  }

  #newSubmission(name: string, random: SeededRandom): Submission {
    const { moods, schedules, callbacks } = this.#world.setting;
    const mood = random.pick(moods);
    const submission: Submission = {
      name,
      // Each death of a process takes long to simulate.
      mood: mood === 'deadly' && random.chance(0.7) ? 'quick' : mood,
      action: random.chance(0.2) ? 'twice' : 'work',
      key: random.chance(0.4) ? `k${random.below(30)}` : undefined,
      options: schedules.length > 0 ? this.#timing(name, random) : {},
    };
    if (callbacks && random.fork(`callback of ${name}`).chance(0.6))
      submission.options.callback_url = `https://${CALLBACK_HOST}/`;
    if (submission.key !== undefined) this.#repeatable.push(submission);
    return submission;
  }

  #timing(name: string, random: SeededRandom): Submission['options'] {
    const delay = random.pick([0, 0.05, 1, 20, 600]);
    const when = random.pick([{}, {}, { delay }, { run_at: this.#world.now / 1000 + delay }]);
    const order = random.chance(0.5) ? { priority: random.between(1, 5) } : {};
    const limit = random.chance(0.6) ? { limit_key: random.pick(['one', 'two', 'three', name]) } : {};
    return { ...when, ...order, ...limit };
  }

  submitMany(name: string, random: SeededRandom): void {
    const names = Array.from({ length: random.between(2, 12) }, (_, index) => `${name}.${index + 1}`).reverse();
    if (this.#world.setting.schedules.length > 0 && random.chance(0.5)) this.#sendBatch(names, random);
    else for (const each of names) this.submit(each, random);
  }

  /** Sends a submission again, as a client does that has seen no answer, or with other content. */
  repeat(name: string, random: SeededRandom): void {
    const recent = this.#repeatable.slice(-8);
    if (recent.length > 0) this.#send({ ...random.pick(recent), name }, random);
  }

  cancel(random: SeededRandom): void {
    // Mostly unfinished tasks, and of those the newest.
    const tasks = [...this.#history.tasks.values()];
    const unfinished = this.#history.in('waiting', 'running');
    const task = random.chance(0.85) && unfinished.length > 0 ? random.pick(unfinished) : random.pick(tasks.slice(-30));
    if (task === undefined) return;
    this.#request(random, `cancel ${task.name}`, async ({ queue }) => {
      const answer = (await queue.cancel(task.id)) ?? 'unknown';
      return { answer, promised: answer === 'cancelled' || answer === 'requested' ? [[task.id, answer]] : [] };
    });
  }

  /** Cancels the tasks that match. Those of earlier answers must all be found. */
  cancelAll(random: SeededRandom): void {
    const history = this.#history;
    const [action, limitKey] = [random.pick(['work', 'twice']), random.pick(['one', 'two', 'three'])];
    const ids = history.in('waiting', 'running').slice(-5);
    const schedule = random.pick(this.#world.setting.schedules);
    const filter = random.pick([{}, { action }, { limitKey }, { action, limitKey }, { schedule }]);
    const isSelected = ({ message }: KnownTask) =>
      Object.entries(filter).every(([field, value]) => message[field as 'action'] === value);
    const selected = history.untouched().filter(isSelected);
    const isByIds = random.chance(0.3);
    const what = `cancel ${isByIds ? ids.map(({ name }) => name) : JSON.stringify(filter)}`;
    this.#request(random, what, async ({ queue }) => {
      const { count, remaining } = await queue.cancelAll(isByIds ? ids.map(({ id }) => id) : filter);
      const missed = history.untouched().find((task) => selected.includes(task));
      if (missed !== undefined && remaining === 0 && !isByIds)
        this.#world.broken('A cancellation by filter finds each task that matches.', `${what} left ${missed.name}`);
      return `${count} cancelled, ${remaining} left`;
    });
  }

  schedule(random: SeededRandom): void {
    const name = random.pick(this.#world.setting.schedules);
    if (random.chance(0.8)) this.setSchedule(name, random.chance(0.3), random);
    else
      this.#request(random, `delete the schedule ${name}`, async ({ queue }) =>
        String(await queue.store.schedules.delete(name, 'api')),
      );
  }

  setSchedule(name: string, isPaused: boolean, random: SeededRandom, source: 'api' | 'module' = 'api'): void {
    const { moods, schedules } = this.#world.setting;
    // The last schedule must not fail for long.
    const mood = schedules.includes(name) ? random.pick(moods) : 'quick';
    this.#request(random, `${isPaused ? 'pause' : 'set'} the schedule ${name}`, async ({ scheduler }) => {
      const definition = readDefinition(name, scheduleFields(name, { mood }, isPaused), this.#world.now, []);
      return String(await scheduler.put(name, definition, source));
    });
  }

  /** Pauses schedules, those of the module as well. */
  pauseSchedules(names: readonly string[], random: SeededRandom): void {
    for (const name of names)
      for (const source of ['api', 'module'] as const) this.setSchedule(name, true, random, source);
  }

  runSchedule(random: SeededRandom): void {
    const name = random.pick(this.#world.setting.schedules);
    this.#request(random, `run the schedule ${name}`, async ({ queue, scheduler }) => {
      const schedule = await queue.store.schedules.find(name);
      if (schedule === undefined) return 'unknown';
      const message = scheduler.taskOf(schedule);
      const { mood } = JSON.parse(schedule.definition).data;
      const now = { name: `${name} now, ${message.id}`, mood, action: 'work', key: undefined, options: {} };
      this.#history.submissions.set(message.id, now);
      const { id } = await queue.publish(message);
      return { answer: 'accepted', promised: [[id, 'accepted']] };
    });
  }

  runNow(random: SeededRandom): void {
    const tasks = this.#history.in('waiting');
    if (tasks.length === 0) return;
    const task = random.pick(tasks);
    this.#request(random, `run ${task.name}`, async ({ queue }) => {
      task.dueAt = undefined;
      return (await queue.runNow(task.id)) ?? 'unknown';
    });
  }

  limit(random: SeededRandom): void {
    const limitOf = () => ({
      ...(random.chance(0.7) && { concurrency: random.between(1, 3) }),
      ...(random.chance(0.4) && { rate: { count: random.between(1, 3), ms: random.pick([100, 1000, 30_000]) } }),
    });
    const limits = random.chance(0.2) ? undefined : { ...limitOf(), ...(random.chance(0.5) && { perKey: limitOf() }) };
    const action = random.pick(['work', 'twice']);
    this.#request(random, `limit ${action} to ${JSON.stringify(limits)}`, async ({ queue }) => {
      await queue.setLimits(action, limits, 'api');
      return 'done';
    });
  }

  redrive(random: SeededRandom, operation: 'redrive' | 'purge' = 'redrive'): void {
    const selection = this.#selection(random);
    const isPurge = operation === 'purge';
    this.#request(random, operation, async ({ queue }) => {
      this.#history[isPurge ? 'hasPurged' : 'hasRedriven'] = true;
      const { done, remaining } = await queue[operation](selection);
      const promised = isPurge ? done.map(({ id }): [string, Promised] => [id, 'purged']) : [];
      return { answer: `${done.length} done, ${remaining} left`, promised };
    });
  }

  purge(random: SeededRandom): void {
    this.redrive(random, 'purge');
  }

  pause(random: SeededRandom, isPaused = true): void {
    const [what, done] = isPaused ? ['pause', 'paused'] : ['resume', 'resumed'];
    this.#request(random, what, async ({ queue }) => (await queue.setPaused(isPaused)) ?? done);
  }

  resume(random: SeededRandom): void {
    this.pause(random, false);
  }

  #send(submission: Submission, random: SeededRandom): void {
    const { name, mood, action, key, options } = submission;
    const details = [mood, ...(action === 'twice' ? ['two attempts'] : []), ...(key ? [key] : [])];
    for (const [option, value] of Object.entries(options)) details.push(`${option} ${value}`);
    const text = `submit ${name} (${details.join(', ')})`;
    this.#request(random, text, async ({ queue, newTaskId }) => {
      const { message, key: idempotency } = this.#parse(submission, newTaskId());
      const published = await queue.publish(message, idempotency);
      const known = published.isNew
        ? 'accepted'
        : `accepted before as ${this.#history.submissionOf(published.id).name}`;
      return { answer: known, promised: [[published.id, 'accepted']] };
    });
  }

  #sendBatch(names: readonly string[], random: SeededRandom): void {
    const submissions = names.map((name) => this.#newSubmission(name, random));
    // A crowd of one key, behind which others wait.
    const crowd = random.chance(0.5) ? { limit_key: 'one', priority: 3 } : {};
    for (const submission of submissions) Object.assign(submission.options, crowd);
    // A batch with several keys is mostly refused.
    if (random.chance(0.7)) for (const submission of submissions) submission.key = undefined;
    this.#request(random, `submit ${names} together`, async ({ queue, newTaskId }) => {
      const results = await queue.publishAll(submissions.map((each) => this.#parse(each, newTaskId())));
      const reused = results.filter((each) => each instanceof Error).length;
      if (reused > 0) return `refused because of ${reused} keys`;
      return { answer: 'accepted', promised: (results as Published[]).map(({ id }) => [id, 'accepted']) };
    });
  }

  #parse(submission: Submission, id: string): StoreSubmission {
    const { mood, action, key, options } = submission;
    this.#history.submissions.set(id, submission);
    const bytes = Buffer.from(JSON.stringify({ action, data: { mood }, ...options }));
    const given = { bytes, id, now: this.#world.now, hasKey: key !== undefined, callbackHosts: [CALLBACK_HOST] };
    const parsed = parseSubmission(given);
    if ('error' in parsed) throw new Error(parsed.error);
    const { message, fingerprint } = parsed;
    return { message, key: key && fingerprint ? { key, fingerprint } : undefined };
  }

  #selection(random: SeededRandom): SearchFilter {
    const letters = this.#history.in('failed');
    const letter = letters.length > 0 ? random.pick(letters) : undefined;
    const one = letter === undefined ? { ids: [] } : { ids: [letter.id] };
    const reason = letter?.reason === undefined ? {} : { reasons: [letter.reason] };
    return random.pick<SearchFilter>([one, reason, {}]);
  }

  #request(random: SeededRandom, what: string, send: (target: Process) => Promise<string | Answer>): void {
    const target = this.#target(random);
    if (target === undefined || target.isDead) return;
    const request = { what, target };
    this.#waiting.add(request);
    this.#world.note(`    ${what}`);
    const isLate = () => target.isDead || !this.#waiting.delete(request);
    send(target).then(
      (result) => {
        if (isLate()) return;
        const { answer, promised } = typeof result === 'string' ? { answer: result, promised: [] } : result;
        this.#world.note(`    ${what}: ${answer}`);
        for (const [id, told] of promised) this.#history.promise(id, told);
      },
      (error: Error) => {
        if (!isLate()) this.#world.note(`    ${what}: ${error.name}: ${error.message}`);
      },
    );
  }
}
