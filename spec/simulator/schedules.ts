import type { Firing, Schedules } from '../../db/schedules.ts';
import type { Process } from './process.ts';
import { type KnownValue, knownValue, watch } from './requests.ts';
import type { World } from './world.ts';

const ONCE = 'Each time of a schedule makes one task.';
const CAUGHT_UP = 'Only missed times are left out, as catch_up says.';

/** Delay from which on a time counts as missed, and number of missed times that run. */
const [LATE_MS, MAX_CAUGHT_UP] = [10_000, 100];

const CRONS = { 5: '*/5 * * * * *', 10: '*/10 * * * * *', 60: '* * * * *', 3600: '0 * * * *' } as const;

/** Returns the fields of a request that sets a schedule. */
export function scheduleFields(name: string, data: object, paused: boolean): Record<string, unknown> {
  const [every = '', catch_up, overlap] = name.split('.');
  return { cron: CRONS[every as unknown as keyof typeof CRONS], action: 'work', data, catch_up, overlap, paused };
}

/** Follows the requests to the schedules, and checks each advance. */
export function scheduleOracle(world: World) {
  /** Next time of each schedule: null if it is paused. */
  const nextTimes = new Map<string, KnownValue<number | null | 'none'>>();

  /** @param isAlone whether no other process changes the schedules */
  function observe(schedules: Schedules, process: Process, isAlone: boolean): void {
    const begin = (name: string) => {
      const known = nextTimes.get(name) ?? knownValue<number | null | 'none'>(world, 'none');
      nextTimes.set(name, known);
      // A single process writes in the order of its requests.
      if (isAlone) known.settle();
      return { next: known.value?.is, answered: known.request() };
    };
    watch(schedules, process, {
      fire(firing) {
        const { name, dueAt, nextAt, task } = firing;
        const known = task && world.history.addFired(task.message, firing);
        const hasOthers = world.history.unfinishedOf(name).length > 1;
        const { next, answered } = begin(name);
        const problem = windowProblem(firing, process.firesFrom);
        if (problem !== undefined && !process.isDead) world.broken(CAUGHT_UP, `${name}: ${problem}`);
        return (fired, error) => {
          if (error !== undefined && error.name !== 'QueueFull') return;
          if (known !== undefined) known.answer = fired === 'fired' ? 'accepted' : 'refused';
          if (error !== undefined) return answered(next);
          answered(fired === 'changed' ? undefined : nextAt);
          if (!isAlone) return;
          if (fired !== 'changed' && next !== undefined && dueAt !== next)
            world.broken(CAUGHT_UP, `${name} goes on at ${dueAt}, not at ${next}`);
          if (fired === 'skipped' && task !== undefined && !hasOthers)
            world.broken(ONCE, `${name} skips ${task.at} although it has no unfinished task`);
        };
      },
      put({ name, nextAt }) {
        const { next, answered } = begin(name);
        // A schedule that is not paused keeps its next time, unless it is paused now.
        const keeps = typeof next === 'number' || next === undefined;
        return (isPut, error) => error ?? answered(!isPut || (keeps && nextAt !== null) ? next : nextAt);
      },
      delete(name) {
        const { answered } = begin(name);
        return (_, error) => error ?? answered(undefined);
      },
    });
  }

  return {
    observe,
    /** Called when changes may be lost, so that the next times are unknown. */
    lost(): void {
      for (const known of nextTimes.values()) known.value = undefined;
    },
  };

  /** Returns how an advance breaks the rule of missed times. @param firesFrom time before which others are missed */
  function windowProblem({ name, dueAt, nextAt, task }: Firing, firesFrom: number): string | undefined {
    const { now } = world;
    const [every, catchUp] = name.split('.');
    const everyMs = Number(every) * 1000;
    const at = task?.at;
    if (dueAt > now || (at ?? 0) > now) return `${at ?? dueAt} is fired early`;
    const times: number[] = [];
    for (let time = dueAt; time < (nextAt ?? 0); time += everyMs) times.push(time);
    if (nextAt === null || nextAt % everyMs !== 0 || (at !== undefined && !times.includes(at))) return 'wrong times';
    const others = times.filter((time) => time !== at);
    const isPassed = others.some((time) => time >= firesFrom && time >= now - LATE_MS);
    const isLeftOut = catchUp === 'all' && others.some((time) => time > now - MAX_CAUGHT_UP * everyMs);
    const isLastLeftOut = catchUp === 'one' && others.some((time) => time > (at ?? 0));
    const isCaughtUp = catchUp === 'none' && at !== undefined && at < now - 2 * LATE_MS;
    if (!isPassed && !isLeftOut && !isLastLeftOut && !isCaughtUp) return undefined;
    return `of ${times.join()} until ${now}, with catch_up ${catchUp}, ${at ?? 'none'} is fired`;
  }
}
