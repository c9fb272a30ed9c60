import type { SearchFilter } from '../../db/task-rows.ts';
import type { Published, Submission as StoreSubmission } from '../../db/task-store.ts';
import { parseSubmission } from '../../workers/submissions/parse-submission.ts';
import type { SeededRandom } from '../support/random.ts';
import type { KnownTask } from './history.ts';
import type { Process } from './process.ts';
import { scheduleOf } from './rules.ts';
import type { Mood, Steps, World } from './world.ts';

interface Submission {
  name: string;
  mood: Mood;
  action: string;
  key: string | undefined;
  options: { delay?: number; run_at?: number; priority?: number; limit_key?: string; callback_url?: string };
}

const CALLBACK_HOST = 'example.com';

/** Clients of the queue. They call it as the routers do, and choose among the tasks that the history knows. */
export function clientsOf(world: World) {
  const { history, processes } = world;
  const { moods, schedules, callbacks } = world.setting;
  const isScheduling = schedules.length > 0;
  /** Submissions with a key, which a client may repeat. */
  const repeatable: Submission[] = [];
  const waiting = new Set<{ what: string; target: Process }>();

  /** Sends a request to one of the processes. @param send returns the answer for the log */
  function request(random: SeededRandom, what: string, send: (target: Process) => Promise<unknown>): void {
    const serving = processes.filter(({ isServing }) => isServing);
    if (serving.length === 0) return;
    const sent = { what, target: random.pick(serving) };
    waiting.add(sent);
    world.note(`    ${what}`);
    const answered = (answer: unknown) =>
      waiting.delete(sent) && !sent.target.isDead && world.note(`    ${what}: ${answer}`);
    send(sent.target).then(answered, ({ name, message }: Error) => answered(`${name}: ${message}`));
  }

  function newSubmission(random: SeededRandom, name: string): Submission {
    const mood = random.pick(moods);
    const submission: Submission = {
      name,
      // Each death of a process takes long to simulate.
      mood: mood === 'deadly' && random.chance(0.7) ? 'quick' : mood,
      action: random.chance(0.2) ? 'twice' : 'work',
      key: random.chance(0.4) ? `k${random.below(30)}` : undefined,
      options: isScheduling ? timing(random, name) : {},
    };
    if (callbacks && random.fork(`callback of ${name}`).chance(0.6))
      submission.options.callback_url = `https://${CALLBACK_HOST}/`;
    if (submission.key !== undefined) repeatable.push(submission);
    return submission;
  }

  function timing(random: SeededRandom, name: string): Submission['options'] {
    const delay = random.pick([0, 0.05, 1, 20, 600]);
    const when = random.pick([{}, {}, { delay }, { run_at: world.now / 1000 + delay }]);
    const order = random.chance(0.5) ? { priority: random.between(1, 5) } : {};
    const limit = random.chance(0.6) ? { limit_key: random.pick(['one', 'two', 'three', name]) } : {};
    return { ...when, ...order, ...limit };
  }

  /** Parses a submission as the router does, and records its id. */
  function parse(submission: Submission, target: Process): StoreSubmission {
    const { name, mood, action, key, options } = submission;
    const bytes = Buffer.from(JSON.stringify({ action, data: { mood }, ...options }));
    const given = { bytes, id: target.newTaskId(), now: world.now, hasKey: key !== undefined };
    const parsed = parseSubmission({ ...given, callbackHosts: [CALLBACK_HOST] });
    if ('error' in parsed) throw new Error(parsed.error);
    const { message, fingerprint } = parsed;
    history.names.set(message.id, name);
    return { message, key: key && fingerprint ? { key, fingerprint } : undefined };
  }

  function send(random: SeededRandom, submission: Submission): void {
    const { name, mood, action, key, options } = submission;
    const details = [mood, ...(action === 'twice' ? ['two attempts'] : []), ...(key ? [key] : [])];
    for (const option of Object.entries(options)) details.push(option.join(' '));
    request(random, `submit ${name} (${details.join(', ')})`, async (target) => {
      const { message, key: idempotency } = parse(submission, target);
      const { id, isNew } = await target.queue.publish(message, idempotency);
      history.told(target, id, 'accepted');
      return isNew ? 'accepted' : `accepted before as ${history.nameOf(id)}`;
    });
  }

  function submitMany(random: SeededRandom, name: string): void {
    const names = Array.from({ length: random.between(2, 12) }, (_, index) => `${name}.${index + 1}`).reverse();
    if (isScheduling && random.chance(0.5)) submitBatch(random, names);
    else for (const each of names) send(random, newSubmission(random, each));
  }

  function submitBatch(random: SeededRandom, names: readonly string[]): void {
    const submissions = names.map((each) => newSubmission(random, each));
    // A crowd of one key, behind which others wait.
    const crowd = random.chance(0.5) ? { limit_key: 'one', priority: 3 } : {};
    for (const { options } of submissions) Object.assign(options, crowd);
    // A batch with several keys is mostly refused.
    if (random.chance(0.7)) for (const submission of submissions) submission.key = undefined;
    request(random, `submit ${names} together`, async (target) => {
      const results = await target.queue.publishAll(submissions.map((each) => parse(each, target)));
      const reused = results.filter((each) => each instanceof Error).length;
      if (reused > 0) return `refused because of ${reused} keys`;
      for (const { id } of results as Published[]) history.told(target, id, 'accepted');
      return 'accepted';
    });
  }

  /** Sends a submission again, as a client does that has seen no answer, or with other content. */
  function repeat(random: SeededRandom, name: string): void {
    const recent = repeatable.slice(-8);
    if (recent.length > 0) send(random, { ...random.pick(recent), name });
  }

  function cancel(random: SeededRandom): void {
    // Mostly unfinished tasks, and of those the newest.
    const unfinished = history.tasksIn('waiting', 'running');
    const isUnfinished = random.chance(0.85) && unfinished.length > 0;
    const task = random.pick(isUnfinished ? unfinished : [...history.tasks.values()].slice(-30));
    if (task === undefined) return;
    request(random, `cancel ${task.name}`, async (target) => {
      const answer = (await target.queue.cancel(task.id)) ?? 'unknown';
      if (answer === 'cancelled' || answer === 'requested') history.told(target, task.id, answer);
      return answer;
    });
  }

  /** Cancels the tasks that match. Those of earlier answers must all be found. */
  function cancelAll(random: SeededRandom): void {
    const [action, limitKey] = [random.pick(['work', 'twice']), random.pick(['one', 'two', 'three'])];
    const tasks = history.tasksIn('waiting', 'running').slice(-5);
    const schedule = random.pick(schedules);
    const filter = random.pick([{}, { action }, { limitKey }, { action, limitKey }, { schedule }]);
    const isSelected = ({ message }: KnownTask) =>
      Object.entries(filter).every(([field, value]) => message[field as 'action'] === value);
    const selected = history.untouched().filter(isSelected);
    const isByIds = random.chance(0.3);
    const what = `cancel ${isByIds ? tasks.map(({ name }) => name) : JSON.stringify(filter)}`;
    request(random, what, async ({ queue }) => {
      const { count, remaining } = await queue.cancelAll(isByIds ? { ids: tasks.map(({ id }) => id) } : filter);
      const missed = history.untouched().find((task) => selected.includes(task));
      if (missed !== undefined && remaining === 0 && !isByIds)
        world.broken('A cancellation by filter finds each task that matches.', `${what} left ${missed.name}`);
      return `${count} cancelled, ${remaining} left`;
    });
  }

  function changeDead(random: SeededRandom, operation: 'redrive' | 'purge'): void {
    const letters = history.tasksIn('failed');
    const { id, reason } = (letters.length > 0 && random.pick(letters)) || {};
    const ids = id === undefined ? [] : [id];
    const selection = random.pick<SearchFilter>([{ ids }, reason === undefined ? {} : { reasons: [reason] }, {}]);
    request(random, operation, async (target) => {
      history[operation === 'purge' ? 'hasPurged' : 'hasRedriven'] = true;
      const { done, remaining } = await target.queue[operation](selection);
      if (operation === 'purge') for (const { id } of done) history.told(target, id, 'purged');
      return `${done.length} done, ${remaining} left`;
    });
  }

  function pause(random: SeededRandom, isPaused = true): void {
    const what = isPaused ? 'pause' : 'resume';
    request(random, what, ({ queue }) => queue.setPaused(isPaused).then(() => `${what}d`));
  }

  function runNow(random: SeededRandom, tasks: readonly KnownTask[]): void {
    if (tasks.length === 0) return;
    const task = random.pick(tasks);
    request(random, `run ${task.name}`, async ({ queue }) => {
      task.dueAt = undefined;
      return (await queue.runNow(task.id)) ?? 'unknown';
    });
  }

  function limit(random: SeededRandom): void {
    const limitOf = () => ({
      ...(random.chance(0.7) && { concurrency: random.between(1, 3) }),
      ...(random.chance(0.4) && { rate: { count: random.between(1, 3), ms: random.pick([100, 1000, 30_000]) } }),
    });
    const limits = random.chance(0.2) ? undefined : { ...limitOf(), ...(random.chance(0.5) && { perKey: limitOf() }) };
    const action = random.pick(['work', 'twice']);
    const what = `limit ${action} to ${JSON.stringify(limits)}`;
    request(random, what, ({ queue }) => queue.setLimits(action, limits, 'api').then(() => 'done'));
  }

  function schedule(random: SeededRandom): void {
    const name = random.pick(schedules);
    if (random.chance(0.8)) setSchedule(name, random.chance(0.3), random);
    else request(random, `delete the schedule ${name}`, ({ queue }) => queue.store.schedules.delete(name, 'api'));
  }

  function setSchedule(name: string, isPaused: boolean, random: SeededRandom, source: 'api' | 'module' = 'api'): void {
    // The last schedule must not fail for long.
    const mood = schedules.includes(name) ? random.pick(moods) : 'quick';
    request(random, `${isPaused ? 'pause' : 'set'} the schedule ${name}`, async ({ scheduler }) => {
      return scheduler.put(name, scheduleOf(name, mood, isPaused, world.now), source);
    });
  }

  function pauseSchedules(names: readonly string[], random: SeededRandom): void {
    for (const name of names) for (const source of ['api', 'module'] as const) setSchedule(name, true, random, source);
  }

  function runSchedule(random: SeededRandom): void {
    const name = random.pick(schedules);
    request(random, `run the schedule ${name}`, async (target) => {
      const stored = await target.queue.store.schedules.find(name);
      if (stored === undefined) return 'unknown';
      const message = target.scheduler.taskOf(stored);
      history.names.set(message.id, `${name} now, ${message.id}`);
      await target.queue.publish(message);
      history.told(target, message.id, 'accepted');
      return 'accepted';
    });
  }

  const steps: Steps = {
    submit: [30, (random, name) => send(random, newSubmission(random, name))],
    ...{ submitMany: [4, submitMany], repeat: [6, repeat], cancel: [8, cancel] },
    redrive: [3, (random) => changeDead(random, 'redrive')],
    purge: [2, (random) => changeDead(random, 'purge')],
    pause: [2, (random) => pause(random)],
    resume: [4, (random) => pause(random, false)],
  };
  const scheduling: Steps = {
    runNow: [5, (random) => runNow(random, history.tasksIn('waiting'))],
    ...{ limit: [4, limit], cancelAll: [1, cancelAll] },
    ...{ schedule: [4, schedule], runSchedule: [1, runSchedule] },
  };
  return {
    ...{ steps, scheduling, pause, runNow, setSchedule, pauseSchedules },
    /** Returns descriptions of the requests without an answer. Requests to a dead process are lost. */
    unanswered: () => [...waiting].flatMap(({ what, target }) => (target.isDead ? [] : what)),
  };
}
