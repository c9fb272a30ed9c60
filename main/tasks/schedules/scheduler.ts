import type { DueSchedule, StoredSchedule } from '../../../db/schedules.ts';
import type { Message, TaskStore } from '../../../db/task-store.ts';
import type { Clock } from '../../../workers/shared/clock.ts';
import { type Draft, draftOf, messageOf, withCallback } from '../../../workers/submissions/parse-submission.ts';
import type { HandlersManifest } from '../../../workers/tasks/messages.ts';
import type { Log } from '../../log/log.ts';
import type { Queue } from '../queue.ts';
import { cronTimes } from './cron.ts';
import type { CompleteDefinition } from './definition.ts';

export interface SchedulerOptions {
  queue: Pick<Queue, 'fire'> & { readonly store: Pick<TaskStore, 'isShared' | 'schedules'> };
  actions: HandlersManifest;
  newTaskId: () => string;
  clock: Clock;
  log: Log;
}

export type ModuleSchedules = ReadonlyMap<string, CompleteDefinition>;

const SLICE = 100;
/** Maximum number of missed times that run. */
const MAX_CAUGHT_UP = 100;
/** Delay from which on a time counts as missed, for example because the queue is full. */
const LATE_MS = 10_000;
/** Interval at which a node looks for what other nodes have changed, and at which it tries again. */
const LOOK_MS = 1000;
/** Longest timer, because a timer does not count the time for which the machine sleeps. */
const LONGEST_TIMER_MS = 60_000;

export class Scheduler {
  /** Number of schedules at the last look, at most a minute ago. */
  count = 0;
  readonly #options: SchedulerOptions;
  readonly #stopped = new AbortController();
  #waiting = new AbortController();
  #running: Promise<void> | undefined;
  /** Time of the start: earlier times are missed. Zero with several nodes, because another node may be retrying one. */
  #startedAt = 0;
  #nextAt = Number.POSITIVE_INFINITY;
  /** Whether the last look failed, so that a lasting failure is logged once. */
  #isFailing = false;

  constructor(options: SchedulerOptions) {
    this.#options = options;
  }

  /** Time since the earliest time that should have run, or 0. */
  get overdueMs(): number {
    return Math.max(0, this.#options.clock.now() - this.#nextAt);
  }

  /** Stores the schedules of the handlers module, and starts to fire. */
  async start(module?: ModuleSchedules): Promise<void> {
    const { queue, clock } = this.#options;
    await this.replace(module);
    this.#startedAt = queue.store.isShared ? 0 : clock.now();
    this.#running = this.#run();
  }

  /** Stores the schedules of the handlers module, and deletes those of former modules. */
  async replace(module: ModuleSchedules = new Map()): Promise<void> {
    const { schedules } = this.#options.queue.store;
    for (const { id, source } of await schedules.list())
      if (source === 'module' && !module.has(id)) await schedules.delete(id, 'module');
    for (const [name, definition] of module) await this.put(name, definition, 'module');
  }

  /** Stops firing. Resolves after the firings in progress. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#waiting.abort();
    await this.#running;
  }

  /** Adds or replaces a schedule. Returns false if nothing was written. */
  async put(name: string, definition: CompleteDefinition, source: StoredSchedule['source']): Promise<boolean> {
    const { queue, clock } = this.#options;
    const { cron, time_zone, paused } = definition;
    const found = await queue.store.schedules.find(name);
    // Another node's clock may be ahead, and have fired the next time already.
    const from = Math.max(clock.now(), found?.lastAt ?? 0);
    const [nextAt = null] = paused ? [] : cronTimes(cron, time_zone).after(from, 1);
    const timing = paused ? '' : `${cron} ${time_zone}`;
    const schedule = { name, definition: JSON.stringify(definition), source, timing, nextAt };
    const isWritten = await queue.store.schedules.put(schedule);
    this.#waiting.abort();
    return isWritten;
  }

  /** Returns a task of a schedule that is due now. */
  taskOf({ name, definition }: StoredSchedule): Message {
    const { actions, newTaskId, clock } = this.#options;
    const { action, data, priority, limit_key, callback_url: callbackUrl }: CompleteDefinition = JSON.parse(definition);
    const submission = { action, data, priority, limit_key };
    const draft = draftOf(submission, { now: clock.now(), hasKey: false }) as Draft;
    // The URL was checked, and its host is checked again before the callback is sent.
    const message = { ...messageOf(newTaskId(), draft), schedule: name, callbackUrl };
    return withCallback(message, actions);
  }

  async #run(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      // Before the look, so that a change during it leads to another look.
      this.#waiting = new AbortController();
      const waitMs = await this.#look();
      if (waitMs > 0 && !this.#stopped.signal.aborted) await this.#options.clock.sleep(waitMs, this.#waiting.signal);
    }
  }

  /** Fires schedules that are due. Returns the time until the next look. */
  async #look(): Promise<number> {
    const { queue, clock, log } = this.#options;
    try {
      const first = await queue.store.schedules.firstDue(SLICE);
      this.count = await queue.store.schedules.count();
      this.#nextAt = first[0]?.nextAt ?? Number.POSITIVE_INFINITY;
      const due = first.filter(({ nextAt }) => nextAt <= clock.now());
      const outcomes = await Promise.allSettled(due.map((schedule) => this.#fire(schedule)));
      for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
      this.#isFailing = false;
      if (due.length > 0) return 0;
      return Math.min(this.#nextAt - clock.now(), queue.store.isShared ? LOOK_MS : LONGEST_TIMER_MS);
    } catch (err) {
      if (!this.#isFailing) log.warn({ err }, 'a schedule cannot make its task: trying again every second');
      this.#isFailing = true;
      return LOOK_MS;
    }
  }

  /** Fires the times that are due, each in a transaction of its own. @throws {QueueFull} */
  async #fire(schedule: DueSchedule): Promise<void> {
    const { queue, clock } = this.#options;
    const { name, definition, nextAt } = schedule;
    const { cron, time_zone, catch_up, overlap }: CompleteDefinition = JSON.parse(definition);
    const times = cronTimes(cron, time_zone);
    const now = clock.now();
    const [second = Number.POSITIVE_INFINITY] = times.after(nextAt, 1);
    const missedBefore = Math.max(this.#startedAt, now - LATE_MS);
    let missedRuns = { none: 0, one: 1, all: MAX_CAUGHT_UP }[catch_up];
    const runs: number[] = [];
    for (const time of second > now ? [nextAt] : times.until(now)) {
      if (time < missedBefore) missedRuns -= 1;
      if (time < nextAt || missedRuns < 0 || runs.length === MAX_CAUGHT_UP) break;
      runs.unshift(time);
    }
    const [following = null] = times.after(now, 1);
    for (const [index, at] of (runs.length > 0 ? runs : [undefined]).entries()) {
      if (this.#stopped.signal.aborted) return;
      // Each run makes the next one due.
      const dueAt = index === 0 || at === undefined ? nextAt : at;
      const task = at === undefined ? undefined : { at, message: this.taskOf(schedule) };
      const advance = { name, definition, dueAt, nextAt: runs[index + 1] ?? following };
      if ((await queue.fire({ ...advance, task, isExclusive: overlap === 'skip' })) === 'changed') return;
    }
  }
}
