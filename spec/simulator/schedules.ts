import type { Fired, Firing, Schedules } from '../../db/schedules.ts';
import type { History } from './history.ts';
import type { Process } from './process.ts';
import type { SeededRandom } from './random.ts';
import type { World } from './world.ts';

const ONCE = 'Each time of a schedule makes one task.';
const CAUGHT_UP = 'Only missed times are left out, as catch_up says.';

/** Delay from which on a time counts as missed, and number of missed times that run. */
const [LATE_MS, MAX_CAUGHT_UP] = [10_000, 100];

const CRONS = { 5: '*/5 * * * * *', 10: '*/10 * * * * *', 60: '* * * * *', 3600: '0 * * * *' } as const;

/** Returns a name with the interval, `catch_up` and `overlap` of a schedule, which therefore never change. */
export function newScheduleName(random: SeededRandom): string {
  const name = [random.pick([10, 60, 60, 3600]), random.pick(['none', 'one', 'all']), random.pick(['allow', 'skip'])];
  return name.join('.');
}

/** Returns the fields of a request that sets a schedule. */
export function scheduleFields(name: string, data: object, paused: boolean): Record<string, unknown> {
  const [every = '', catch_up, overlap] = name.split('.');
  return { cron: CRONS[every as unknown as keyof typeof CRONS], action: 'work', data, catch_up, overlap, paused };
}

/** Checks each advance of a schedule. */
export function scheduleOracle(world: World, history: History) {
  /** Next times, as the answers show them. Undefined while a request has no answer. */
  const nextTimes = new Map<string, number | null | undefined>();
  const requests = new Map<string, object>();

  /** Called when changes may be lost, so that the next times are unknown. */
  function lost(): void {
    nextTimes.clear();
  }

  /** @param isAlone whether no other process changes the schedules */
  function observe(schedules: Schedules, process: Process, isAlone: boolean): void {
    const fire = schedules.fire.bind(schedules);
    const put = schedules.put.bind(schedules);
    const remove = schedules.delete.bind(schedules);
    schedules.fire = async (firing, onAccepted) => {
      const { name, nextAt, task } = firing;
      const known = task && history.addFired(task.message, firing);
      const hasOthers = history.unfinishedOf(name).length > 1;
      const next = nextTimes.get(name);
      const answer = request(name);
      const window = windowProblem(firing, process);
      if (window !== undefined && !process.isDead) world.broken(CAUGHT_UP, `${name}: ${window}`);
      const fired = await fire(firing, onAccepted).catch((error: Error) => {
        if (known !== undefined && error.name === 'QueueFull') known.answer = 'refused';
        if (error.name === 'QueueFull') answer(next);
        throw error;
      });
      if (process.isDead) return fired;
      if (known !== undefined) known.answer = fired === 'fired' ? 'accepted' : 'refused';
      answer(fired === 'changed' ? undefined : nextAt);
      if (isAlone) checkAlone(firing, fired, next, hasOthers);
      return fired;
    };
    schedules.put = async (schedule) => {
      const { name, timing, nextAt } = schedule;
      const before = isAlone && process.isDead === false ? await schedules.find(name) : undefined;
      const next = nextTimes.get(name);
      const answer = request(name);
      const isPut = await put(schedule);
      // Only a paused schedule has another timing.
      const isSame = before !== undefined && (before.nextAt === null) === (timing === '');
      if (!process.isDead) answer(!isPut || isSame ? next : nextAt);
      return isPut;
    };
    schedules.delete = async (name, source) => {
      request(name);
      return remove(name, source);
    };
  }

  /** Begins a request that changes a next time. Returns a function to call with the time after the answer. */
  function request(name: string): (next: number | null | undefined) => void {
    const request = {};
    requests.set(name, request);
    nextTimes.delete(name);
    return (next) => {
      if (requests.get(name) === request) nextTimes.set(name, next);
    };
  }

  /** Returns how an advance breaks the rule of missed times. */
  function windowProblem({ name, dueAt, nextAt, task }: Firing, { firesFrom }: Process): string | undefined {
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

  function checkAlone(
    { name, dueAt, task }: Firing,
    fired: Fired,
    next: number | null | undefined,
    hasOthers: boolean,
  ) {
    if (fired !== 'changed' && next !== undefined && dueAt !== next)
      world.broken(CAUGHT_UP, `${name} goes on at ${dueAt}, not at ${next}`);
    if (fired === 'skipped' && task !== undefined && !hasOthers)
      world.broken(ONCE, `${name} skips ${task.at} although it has no unfinished task`);
  }

  return { lost, observe };
}
