import { setImmediate as turn } from 'node:timers/promises';
import { type Awaitable, type QueueCounts, unfinished } from '../../db/task-store.ts';
import type { SeededRandom } from '../support/random.ts';
import { clientsOf } from './clients.ts';
import { REST, type Tables } from './history.ts';
import { type Backend, Process } from './process.ts';
import type { FaultSet, Steps, World } from './world.ts';

export interface SimulationOptions {
  seed: number;
  steps: number;
  faults: FaultSet;
  /** Numbers of the steps to run. Undefined for all. */
  only?: ReadonlySet<number> | undefined;
  note?: ((line: string) => unknown) | undefined;
  databaseUrl?: string | undefined;
}

/** Numbers of the steps that ran, and the rule that was broken. */
export type SimulationResult = { ran: number[] } & Pick<World, 'violation'>;

/** Where the processes of a simulation keep their state: on a disk, or on a server that several share. */
export interface Site {
  readonly size: number;
  /** Whether a real server has the state, which has changed already when an answer arrives. */
  readonly isReal?: boolean | undefined;
  steps(simulation: Simulation): Steps;
  openBackend(process: Process): Backend | Promise<Backend>;
  /** Called when a process has died or stopped. @param isKept whether its queue is. Undefined if it has died */
  ended(process: Process, isKept?: boolean): void;
  repair(): void;
  hasFault(): boolean;
  isPaused(): Awaitable<boolean>;
  counts(): Awaitable<QueueCounts>;
  read(): Awaitable<Tables>;
  /** Checks what tasks do not show, after the faults. */
  checkRest?(simulation: Simulation): Promise<void>;
  close(): Awaitable<void>;
}

/** State and operations for the steps of a site. */
export interface Simulation {
  step: number;
  /** Lets time pass, and starts the processes again that end meanwhile. */
  pass(ms: number, isOver?: () => boolean): Promise<void>;
  /** Ends a process, and starts the next one. @param downMs draws the time for which none runs */
  restart(place: number, end: (process: Process) => unknown, downMs?: () => number): Promise<void>;
  kill(process: Process): void;
  stop(process: Process): Promise<void>;
}

const AUDIT_STEPS = 50;
const PAUSE_KNOWN = 'After the faults, each node knows whether the queue is paused.';
const FIRES = 'After the faults, schedules make tasks.';
/** No other schedule has this name. */
const LAST_SCHEDULE = '5.one.allow';
/** Longer than any delay of a task or of a retry. */
const LONGEST_STANDSTILL_MS = 60 * 60 * 1000;
const LONGEST_STOP_MS = 100_000;
/** Time after which a process that could not start is started again. */
const RESTART_MS = 500;

export async function runSimulation(
  world: World,
  site: Site,
  { steps: count, only }: SimulationOptions,
): Promise<SimulationResult> {
  const { random, setting, time, pace, processes, history } = world;
  const clients = clientsOf(world);
  const simulation: Simulation = { step: 0, pass, restart, kill, stop };
  let started = 0;
  let isFaulty = true;

  async function pass(ms: number, isOver = () => false): Promise<void> {
    const end = time.now + ms * pace;
    const isEnd = () => world.violation !== undefined || isOver();
    while (time.now < end && !isEnd()) {
      await time.pass(end - time.now, () => isEnd() || processes.some(({ isKillDue }) => isKillDue));
      if (!isOver()) await restartKilled();
    }
  }

  async function restartKilled(): Promise<void> {
    for (const [place, { isKillDue }] of processes.entries()) if (isKillDue) await restart(place, kill);
  }

  /** Starts a process, and again later if a fault prevents its start. A node opens its connections later. */
  async function start(place: number): Promise<void> {
    started += 1;
    // Depends on no earlier step.
    const name = `process ${place + 1}.${simulation.step}.${started}`;
    const own = random.fork(name);
    const hasModule = isFaulty && own.fork('module').chance(0.7);
    const process = new Process({ world, name, place, random: own, hasModule });
    processes[place] = process;
    const onFailed = async (error: Error) => {
      const problem = `${name} cannot start: ${error.message}`;
      world.note(`    ${problem}`);
      if (!process.isDead && !site.hasFault()) world.broken(REST, problem);
      await process.clock.sleep(RESTART_MS);
      process.isKillDue = true;
    };
    const startSchedules = () => {
      world.note(`    ${name} has started`);
      void process.startSchedules().catch(onFailed);
    };
    await Promise.race([process.open(site.openBackend).then(startSchedules, onFailed), turn()]);
  }

  function kill(process: Process): void {
    if (process.isDead) return;
    world.note(`    ${process.name} is dead`);
    site.ended(process);
  }

  async function stop(process: Process): Promise<void> {
    if (!process.isServing) return;
    const untilAnswered = async () => {
      while (clients.unanswered().length > 0 && world.violation === undefined) await turn();
    };
    let isKept: boolean | undefined;
    void process.stop(untilAnswered()).then((kept) => {
      isKept = kept;
    });
    await pass(LONGEST_STOP_MS, () => isKept !== undefined || process.isDead);
    if (process.isDead || world.violation !== undefined) return;
    if (isKept !== undefined) {
      world.note(`    ${process.name} has stopped${isKept ? '' : ', and could not save the queue'}`);
      site.ended(process, isKept);
    } else if (site.size === 1) world.broken(REST, `${process.name} did not stop in time`);
  }

  async function restart(place: number, end: (process: Process) => unknown, downMs = () => 0): Promise<void> {
    const process = processes[place] as Process;
    // Its successor starts counting the messages from zero.
    if (site.size === 1) audit();
    await end(process);
    // A handler may have ended it before, so that it has a successor.
    if (processes[place] !== process) return;
    kill(process);
    const ms = downMs();
    if (ms > 0) await time.pass(ms);
    await start(place);
  }

  /** Waits long. No message may then wait although nothing holds it up. */
  async function waitLong(random: SeededRandom): Promise<void> {
    await pass(random.between(1000, 30_000));
    const before = waitingIdle();
    if (before === undefined) return;
    // The oldest message may have become due just now, or wait for a failed write, which is repeated within five seconds.
    await pass(6000);
    if (before === waitingIdle()) world.broken(REST, `no handler runs, and a message of ${before} waits`);
  }

  /** Returns when the oldest waiting message became due, if it waits although no handler and no fault holds it up. */
  function waitingIdle(): number | undefined {
    // A resumption takes effect when it is synced.
    const mayRun = processes.every(({ isServing, queue }) => isServing && !queue.isPaused);
    if (site.hasFault() || !mayRun) return undefined;
    const { inFlight, oldest } = site.counts() as QueueCounts;
    return inFlight === 0 && history.tasksIn('running').length === 0 ? oldest : undefined;
  }

  function audit(): void {
    if (!site.isReal && processes.some(({ isServing }) => isServing))
      history.audit(site.read() as Tables, site.counts() as QueueCounts);
  }

  async function runSteps(): Promise<number[]> {
    const [steps, kinds] = plan();
    const ran: number[] = [];
    for (let place = 0; place < site.size; place += 1) await start(place);
    if (site.size > 1) await pass(2000);
    for (const [index, kind] of kinds.entries()) {
      if (world.violation !== undefined) break;
      if (only?.has(index + 1) === false) continue;
      simulation.step = index + 1;
      started = 0;
      ran.push(simulation.step);
      const own = random.fork(`step ${simulation.step}`);
      world.note(`step ${simulation.step}: ${kind}`);
      const done = steps[kind]?.[1](own, `t${simulation.step}`);
      if (done !== undefined) await done;
      // The next step may come before the product has finished this one.
      for (let turns = own.below(4); turns > 0; turns -= 1) await turn();
      if (own.chance(0.3)) await pass(own.below(10));
      await restartKilled();
      if (ran.length % AUDIT_STEPS === 0) audit();
    }
    return ran;
  }

  function plan(): [Steps, string[]] {
    const steps: Steps = {
      ...clients.steps,
      wait: [20, (own) => pass(own.pick([1, 5, 20, 100, 500]))],
      waitLong: [3, waitLong],
      ...site.steps(simulation),
      ...(setting.schedules.length > 0 && clients.scheduling),
    };
    const planned = random.fork('steps');
    // Each seed has some kinds of steps more often than others, and some not at all, because a rare combination of two
    // kinds would otherwise be covered by the others.
    const weights = Object.entries(steps).map(([kind, [weight]]): [string, number] => {
      return [kind, weight * planned.pick([0, 0.3, 1, 1, 2])];
    });
    weights.push(['submit', 5], ['wait', 5]);
    return [steps, Array.from({ length: count }, () => planned.weighted(weights))];
  }

  async function end(): Promise<void> {
    world.note('the faults are over');
    isFaulty = false;
    site.repair();
    for (const process of processes) await process.goOn();
    await pass(15_000);
    // A process that waited for the server starts only after its timeout. Until then, a resumption is lost.
    for (let waits = 0; waits < 30 && !processes.some(({ isServing }) => isServing); waits += 1) await pass(1000);
    // A node that has missed messages reads again whether the queue is paused.
    const isPaused = await site.isPaused();
    for (const { name, isServing, queue } of processes)
      if (isServing && queue.isPaused !== isPaused) world.broken(PAUSE_KNOWN, `${name} has missed the change`);
    // A pause or resumption may have been lost with its process.
    clients.pause(random, false);
    if (setting.schedules.length === 0) await rest();
    else await endSchedules();
    await pass(5000);
    await site.checkRest?.(simulation);
    if (world.violation !== undefined) return;
    const tables = await site.read();
    history.audit(tables, await site.counts());
    history.auditRest(tables, clients.unanswered());
    if (site.size === 1) await restart(0, stop);
  }

  async function rest(): Promise<void> {
    let [before, changedAt] = ['', time.now];
    while (world.violation === undefined && time.now < changedAt + LONGEST_STANDSTILL_MS * pace) {
      const counts = processes.some(({ isServing }) => isServing) ? await site.counts() : undefined;
      if (counts !== undefined && unfinished(counts) === 0 && clients.unanswered().length === 0) return;
      const state = JSON.stringify(counts);
      if (state !== before) [before, changedAt] = [state, time.now];
      // A retry waits for up to an hour.
      if (site.isReal && clients.unanswered().length === 0)
        for (const task of history.tasksIn('waiting')) clients.runNow(random, [task]);
      await pass(1000);
    }
  }

  /** Pauses the schedules, so that the queue comes to rest, and checks that a new one fires. */
  async function endSchedules(): Promise<void> {
    clients.pauseSchedules(setting.schedules, random);
    await rest();
    clients.setSchedule(LAST_SCHEDULE, false, random);
    await pass(12_000 / pace);
    const found = processes.find(({ isServing }) => isServing)?.queue.store.schedules.find(LAST_SCHEDULE);
    const read = found?.catch(() => undefined);
    await pass(1000 / pace);
    const lastAt = (await Promise.race([read, turn().then(() => undefined)]))?.lastAt ?? 0;
    if (lastAt < world.now - 7000) world.broken(FIRES, `${LAST_SCHEDULE} was fired at ${lastAt}`);
    clients.pauseSchedules([LAST_SCHEDULE], random);
    await pass(1000);
    await rest();
  }

  try {
    const ran = await runSteps();
    if (world.violation === undefined) await end();
    return { ran, violation: world.violation };
  } finally {
    world.isOver = true;
    for (const process of processes) if (!process.isDead) process.kill();
    await site.close();
  }
}
