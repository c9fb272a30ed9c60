import { SqliteStore } from '../../db/sqlite/store.ts';
import { startRetention } from '../../main/tasks/retention.ts';
import { auditCallbacks } from './callbacks.ts';
import { Disk, type DiskFault } from './disk.ts';
import type { Tables } from './history.ts';
import type { Backend, Process } from './process.ts';
import { SeededRandom } from './random.ts';
import {
  runSimulation,
  type Simulation,
  type SimulationOptions,
  type SimulationResult,
  type Site,
} from './simulation.ts';
import { SimulatedTime, turn } from './time.ts';
import { createWorld, type FaultSet, type Steps, settingOf, type World } from './world.ts';

const SAVED = 'A stop saves the queue.';

/** Runs one process with its file. */
export function simulateFile(options: SimulationOptions): Promise<SimulationResult> {
  const random = new SeededRandom(String(options.seed));
  const drawn = settingOf(random.fork('setting'), options.seed);
  // Callbacks in memory are lost with the process, and retention deletes their rows.
  const setting = { ...drawn, callbacks: options.seed % 3 === 1 && drawn.driver === 'sqlite' && drawn.rows === 0 };
  const world = createWorld({ ...options, time: new SimulatedTime(), random, setting });
  const { driver, threads, prefetch, bounds } = setting;
  world.note(`${driver}, ${threads} threads, prefetch ${prefetch}, at most ${bounds.maxLength} tasks`);
  return runSimulation(world, fileSite(world, options.faults), options);
}

/** A disk with the file of one process. */
function fileSite(world: World, faultSet: FaultSet): Site {
  const { driver, bounds, rows, schedules, callbacks } = world.setting;
  const disk = new Disk(world.random.fork('disk'));
  world.hidden = disk.root;
  let store!: SqliteStore;
  const repair = () => Object.assign(disk, { fault: undefined, failsSyncs: false, syncMs: 2 });

  function openBackend(process: Process): Backend {
    const { clock } = process;
    let hasFailedToSave = false;
    const opened = new SqliteStore({
      ...{ dataDir: disk.folder, driver, bounds },
      now: () => clock.now(),
      newId: process.options.random.uuid,
      onSaveFailed: () => {
        hasFailedToSave = true;
      },
      excessRows: async (kept) => Math.max(0, disk.read('SELECT 1 FROM tasks').length - kept),
      syncFile: async () => {
        const { ms, end } = disk.sync();
        await clock.sleep(ms);
        world.history.failingSyncs ??= {};
        end();
        world.history.failingSyncs = undefined;
      },
    });
    store = opened;
    process.onKill = () => opened.close();
    let retention: ReturnType<typeof startRetention> | undefined;
    return {
      store: opened,
      start() {
        retention = startRetention({ store: opened, rows, days: 0, clock, log: world.log });
      },
      async stop() {
        await retention?.stop();
        disk.stopReading();
        await opened.close();
        return opened.isDurable || !hasFailedToSave;
      },
    };
  }

  function ended(process: Process, isKept?: boolean): void {
    if (isKept === undefined) disk.loseProcess(process.onKill !== undefined, () => process.kill());
    else {
      process.kill();
      disk.emptied();
      if (!isKept && disk.fault === undefined) world.broken(SAVED, 'the stop did not save the queue');
    }
    world.history.processEnded(isKept);
  }

  function read(): Tables {
    const tables = disk.readTables(store);
    return callbacks ? { ...tables, callbacks: auditCallbacks(world, disk, tables) } : tables;
  }

  /** Restarts the log as the maintenance thread does. */
  async function checkpoint(random: SeededRandom, { pass }: Simulation): Promise<void> {
    const held = store;
    held.holdWrites();
    for (let turns = random.below(4); turns > 0; turns -= 1) await turn();
    if (random.chance(0.5)) await pass(random.below(100));
    // A process that was killed meanwhile has another successor.
    if (held !== store) return;
    disk.checkpoint();
    held.resumeWrites();
    await turn();
  }

  function steps(simulation: Simulation): Steps {
    const has = (set: FaultSet) => faultSet === set || faultSet === 'all';
    /** Restarts the process, perhaps after times of schedules at which none runs. */
    const restart = (random: SeededRandom, end: (process: Process) => unknown) =>
      simulation.restart(0, end, () => (schedules.length > 0 ? random.pick([0, 0, 5000, 100_000, 10_000_000]) : 0));
    const losePower = (process: Process, random: SeededRandom) => {
      simulation.kill(process);
      disk.losePower(random);
      world.note('    the power is lost');
      world.history.powerLost();
    };
    const waitDay = async () => {
      // In a day of faults, each second would be another attempt to write the same.
      if (disk.fault !== undefined) await simulation.pass(60_000);
      disk.fault = undefined;
      await simulation.pass(25 * 60 * 60 * 1000);
    };
    const failDisk = (random: SeededRandom) => {
      disk.fault = random.pick<DiskFault>(['full', 'broken', 'unreliable', 'locked']);
      world.note(`    the disk is ${disk.fault}`);
    };
    const crash: Steps = {
      kill: [0.5, (random) => restart(random, simulation.kill)],
      losePower: [0.7, (random) => restart(random, (process) => losePower(process, random))],
      stop: [0.4, (random) => restart(random, simulation.stop)],
    };
    const failing: Steps = {
      ...{ failDisk: [1.5, failDisk], repairDisk: [4, repair] },
      failSyncs: [1, () => Object.assign(disk, { failsSyncs: true })],
      slowSyncs: [2, (random) => Object.assign(disk, { syncMs: random.pick([0, 20, 300, 3000]) })],
    };
    return {
      checkpoint: [1, (random) => checkpoint(random, simulation)],
      // Retention wakes up each second.
      ...(rows === 0 && schedules.length === 0 && { waitDay: [0.2, waitDay] as const }),
      ...{ ...(has('crash') && crash), ...(has('disk') && failing) },
    };
  }

  return {
    ...{ size: 1, steps, openBackend, ended, repair, read },
    counts: () => store.counts(),
    isPaused: () => store.isPaused(),
    hasFault: () => disk.fault !== undefined || disk.failsSyncs,
    close: () => disk.remove(),
  };
}
