import type { MainToMaintenance, MaintenanceStart, MaintenanceToMain } from '../../workers/maintenance/messages.ts';
import type { Log } from '../log/log.ts';
import { SupervisedThread } from '../threads/supervised-thread.ts';
import { threadFile } from '../threads/thread-file.ts';

export interface MaintenanceOptions {
  dataDir: string;
  /** Holds the writes of `tasks.db` back. Must not let one continue after it returns. */
  hold: () => void;
  resume: () => void;
  log: Log;
  file?: URL;
}

/** The thread that checkpoints `tasks.db` and counts its rows. Without it, the write-ahead log grows without limit. */
export class Maintenance {
  readonly #thread: SupervisedThread<MainToMaintenance, MaintenanceToMain>;
  readonly #options: MaintenanceOptions;
  /** Request that has no answer yet. */
  #count: (PromiseWithResolvers<number> & { rows: number }) | undefined;
  #isStopped = false;

  constructor(options: MaintenanceOptions) {
    this.#options = options;
    this.#thread = new SupervisedThread({
      name: 'maintenance',
      file: options.file ?? threadFile('maintenance/maintenance'),
      workerData: () => ({ dataDir: options.dataDir }) satisfies MaintenanceStart,
      restartDelaysMs: [1000, 5000, 15_000],
      stableAfterMs: 120_000,
      onMessage: (message) => this.#receive(message),
      onSpawn: () => this.#askForCount(),
      // The thread may have ended between `hold` and `resume`.
      onExit: () => options.resume(),
      log: options.log,
    });
  }

  start(): void {
    this.#thread.start();
  }

  /** Returns the number of task rows beyond the newest `rows`, or 0 after a stop. Must not be called again meanwhile. */
  excessRows(rows: number): Promise<number> {
    if (this.#isStopped) return Promise.resolve(0);
    this.#count = { rows, ...Promise.withResolvers<number>() };
    this.#askForCount();
    return this.#count.promise;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#count?.resolve(0);
    await this.#thread.stop();
  }

  /** A restarted thread gets the request again. */
  #askForCount(): void {
    if (this.#count !== undefined) this.#thread.post({ topic: 'countExcess', rows: this.#count.rows });
  }

  #receive(message: MaintenanceToMain): void {
    switch (message.topic) {
      case 'hold':
        this.#options.hold();
        this.#thread.post({ topic: 'held' });
        break;
      case 'resume':
        this.#options.resume();
        break;
      case 'excess':
        this.#count?.resolve(message.excess);
        this.#count = undefined;
    }
  }
}
