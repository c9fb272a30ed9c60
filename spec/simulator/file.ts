import { pino } from 'pino';
import { SqliteStore } from '../../db/sqlite/store.ts';
import { startRetention } from '../../main/tasks/retention.ts';
import { auditCallbacks } from './callbacks.ts';
import { Disk, type DiskFault, readTables, unfinished } from './disk.ts';
import { Process, type ProcessOptions, silent } from './process.ts';
import { SeededRandom } from './random.ts';
import { Simulation, type SimulationOptions, type SimulationResult } from './simulation.ts';
import { type FaultSet, ORDINARY, settingOf } from './steps.ts';
import { SimulatedTime, turn } from './time.ts';
import { createWorld, type World } from './world.ts';

const COUNTS = 'Counts and lists derive from the tables.';
const BOUND = 'A full queue refuses tasks.';
const SAVED = 'A stop saves the queue.';
const REST = 'After the faults, processing resumes automatically, and each task ends.';

const CRASH = { kill: 0.5, losePower: 0.7, stop: 0.4 };
const DISK = { failDisk: 1.5, repairDisk: 4, failSyncs: 1, slowSyncs: 2 };

type FaultKind = keyof typeof CRASH | keyof typeof DISK | 'checkpoint' | 'waitDay' | keyof typeof ORDINARY;

/** Runs one process with its file. */
export function simulateFile(options: SimulationOptions): Promise<SimulationResult> {
  const random = new SeededRandom(String(options.seed));
  const drawn = settingOf(random.fork('setting'), options.seed);
  // Callbacks in memory are lost with the process, and retention deletes their rows.
  const setting = { ...drawn, callbacks: options.seed % 3 === 1 && drawn.driver === 'sqlite' && drawn.rows === 0 };
  const world = createWorld(new SimulatedTime(), random, setting, options.note);
  return new FileSimulation(world, options.faults).run(options);
}

/** A process with SQLite: the parts that `startTasks` and the maintenance start. */
class FileProcess extends Process {
  hasFailedToSave = false;
  readonly store: SqliteStore;
  readonly #disk: Disk;
  #retention: ReturnType<typeof startRetention> | undefined;

  constructor(options: ProcessOptions, disk: Disk) {
    super(options);
    const { setting } = options.world;
    const { clock } = this;
    this.#disk = disk;
    this.store = new SqliteStore({
      dataDir: disk.folder,
      driver: setting.driver,
      bounds: { maxLength: setting.maxLength, maxBytes: 2 ** 40, maxKeys: setting.maxKeys },
      now: () => clock.now(),
      newId: options.random.uuid,
      onSaveFailed: () => {
        this.hasFailedToSave = true;
      },
      excessRows: async (rows) => Math.max(0, disk.read('SELECT 1 FROM tasks').length - rows),
      syncFile: async () => {
        const { ms, end } = disk.sync();
        await clock.sleep(ms);
        end();
      },
    });
  }

  async open(): Promise<void> {
    const { world } = this.options;
    const { setting } = world;
    const { clock, store } = this;
    const write = (line: string) => world.note(`    log ${this.#disk.hide(line)}`);
    const log = world.isLogged ? pino({ base: null, timestamp: false }, { write }) : silent;
    const dispatcher = await this.openQueue(store, undefined, log);
    store.start();
    this.dispatcher = dispatcher;
    this.#retention = startRetention({ store, rows: setting.rows, days: 0, clock, log });
    if (setting.schedules.length > 0) this.startSchedules().catch(() => this.#failStart());
    dispatcher.start();
  }

  /** A service whose schedules cannot be stored does not start, and is started again later. */
  async #failStart(): Promise<void> {
    await this.clock.sleep(10_000);
    this.isKillDue = true;
  }

  override kill(): void {
    super.kill();
    // Its files are gone, so nothing is saved.
    void this.store.close();
  }

  /** Stops as a service does at SIGTERM. */
  async stop(answered: Promise<unknown>): Promise<void> {
    const { clock, store } = this;
    this.isStopping = true;
    await this.scheduler.stop();
    await Promise.race([answered, clock.sleep(2000)]);
    const deadline = clock.sleep(9000);
    if (!store.isDurable) await this.dispatcher?.drain(deadline, clock.sleep(5000));
    await this.dispatcher?.stop(deadline);
    await this.#retention?.stop();
    this.queue.close();
    await store.close();
    this.isDead = true;
    clock.kill();
  }
}

class FileSimulation extends Simulation<FaultKind, FileProcess> {
  protected readonly weights: Partial<Record<FaultKind, number>>;
  readonly #disk: Disk;

  constructor(world: World, faults: FaultSet) {
    super(world);
    this.#disk = new Disk(world.random.fork('disk'));
    this.weights = {
      ...ORDINARY,
      checkpoint: 1,
      // Retention wakes up each second.
      ...(world.setting.rows === 0 && world.setting.schedules.length === 0 && { waitDay: 0.2 }),
      ...((faults === 'crash' || faults === 'all') && CRASH),
      ...((faults === 'disk' || faults === 'all') && DISK),
    };
  }

  protected close(): void {
    this.#disk.remove();
    const [process] = this.processes;
    if (process !== undefined && !process.isDead) process.kill();
  }

  protected async start(): Promise<void> {
    const disk = this.#disk;
    const { driver, threads, prefetch, maxLength } = this.world.setting;
    if (this.step === 0)
      this.world.note(`${driver}, ${threads} threads, prefetch ${prefetch}, at most ${maxLength} tasks`);
    for (;;) {
      try {
        const process = new FileProcess(this.optionsOf(0), disk);
        this.processes[0] = process;
        await process.open();
        break;
      } catch (error) {
        this.world.note(`    the start failed: ${disk.hide((error as Error).message)}`);
        if (disk.fault === undefined) throw error;
        disk.loseProcess();
        await this.world.time.pass(1000);
      }
    }
    this.world.note('    the process has started');
    this.audit();
  }

  protected async fault(kind: FaultKind, random: SeededRandom): Promise<void> {
    const disk = this.#disk;
    switch (kind) {
      case 'waitDay':
        // In a day of faults, each second would be another attempt to write the same.
        if (disk.fault !== undefined) await this.pass(60_000);
        disk.fault = undefined;
        return this.pass(25 * 60 * 60 * 1000);
      case 'checkpoint':
        return this.#checkpoint(random);
      case 'kill':
        this.#kill();
        return this.#startAfter(random);
      case 'losePower':
        this.#kill();
        disk.losePower(random);
        this.world.note('    the power is lost');
        this.history.powerLost();
        return this.#startAfter(random);
      case 'stop':
        await this.#stop();
        return this.#startAfter(random);
      case 'failDisk':
        disk.fault = random.pick<DiskFault>(['full', 'broken', 'unreliable', 'locked']);
        return this.world.note(`    the disk is ${disk.fault}`);
      case 'repairDisk':
        return this.repair();
      case 'failSyncs':
        disk.failsSyncs = true;
        break;
      case 'slowSyncs':
        disk.syncMs = random.pick([0, 20, 300, 3000]);
    }
  }

  protected repair(): void {
    Object.assign(this.#disk, { fault: undefined, failsSyncs: false, syncMs: 2 });
  }

  protected async restart(): Promise<void> {
    this.#kill();
    await this.start();
  }

  /** Starts the next process, perhaps after times of schedules at which none runs. */
  async #startAfter(random: SeededRandom): Promise<void> {
    const { setting, time } = this.world;
    if (setting.schedules.length > 0) await time.pass(random.pick([0, 0, 5000, 100_000, 10_000_000]));
    await this.start();
  }

  protected isAtRest(): boolean {
    const counts = this.processes[0]?.store.counts();
    const isEmpty = counts !== undefined && unfinished(counts) === 0;
    return isEmpty && this.clients.unanswered.length === 0;
  }

  protected audit(): void {
    const process = this.processes[0];
    if (process === undefined || process.isDead) return;
    const { history, world } = this;
    const { store } = process;
    const tables = readTables(store, this.#disk);
    const counts = store.counts();
    const { length } = tables.messages;
    const count = store.isDurable ? this.#disk.read('SELECT 1 FROM messages').length : length;
    if (new Set(tables.messages.map(({ id }) => id)).size !== count)
      world.broken(COUNTS, `${length} of ${count} messages are listed`);
    history.auditCounts(counts, tables.messages);
    history.audit(world.setting.callbacks ? auditCallbacks(world, history, this.#disk, tables) : tables);
    if (unfinished(counts) > world.setting.maxLength) world.broken(BOUND, `the queue has ${unfinished(counts)} tasks`);
  }

  protected async finish(): Promise<void> {
    const process = this.processes[0] as FileProcess;
    this.history.auditRest(readTables(process.store, this.#disk), this.clients.unanswered);
    this.audit();
    await this.#stop();
    if (this.world.violation === undefined) await this.start();
  }

  #kill(): void {
    this.#disk.loseProcess(() => this.processes[0]?.kill());
    this.history.processEnded();
    this.world.note('    the process is killed');
  }

  async #stop(): Promise<void> {
    const process = this.processes[0] as FileProcess;
    const { world } = this;
    const isWritable = this.#disk.fault === undefined;
    this.#disk.stopReading();
    let isStopped = false;
    void process.stop(this.#untilAnswered()).then(() => {
      isStopped = true;
    });
    const isOver = () => isStopped || process.isKillDue || world.violation !== undefined;
    for (let count = 0; count < 100 && !isOver(); count += 1) await world.time.pass(1000, isOver);
    if (process.isKillDue && !isStopped) return this.#kill();
    process.isKillDue = false;
    if (!isStopped) return world.broken(REST, 'the process did not stop in time');
    const isSaved = process.store.isDurable || !process.hasFailedToSave;
    world.note(`    the process has stopped${isSaved ? '' : ', and could not save the queue'}`);
    if (!isSaved && isWritable) world.broken(SAVED, 'the stop did not save the queue');
    this.history.processEnded(isSaved);
    this.#disk.emptied();
  }

  async #untilAnswered(): Promise<void> {
    while (this.clients.unanswered.length > 0 && this.world.violation === undefined) await turn();
  }

  /** Restarts the log as the maintenance thread does. */
  async #checkpoint(random: SeededRandom): Promise<void> {
    const process = this.processes[0];
    process?.store.holdWrites();
    for (let turns = random.below(4); turns > 0; turns -= 1) await turn();
    if (random.chance(0.5)) await this.pass(random.below(100));
    // A process that was killed meanwhile has another successor.
    if (this.processes[0] !== process) return;
    this.#disk.checkpoint();
    process?.store.resumeWrites();
    await turn();
  }
}
