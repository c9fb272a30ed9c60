import type { LifecycleMessage, Pid } from '../../workers/messages.ts';
import type { CloseCode } from './close-codes.ts';

/** Something with an address that messages can be sent to. It ends at the latest when `receive` throws. */
export interface Process {
  receive(message: LifecycleMessage): void;
}

/** Why a process ended: as intended, for a reason that its client is told, or because of an error. */
export type ExitReason = 'normal' | CloseCode | Error;

interface Entry {
  process: Process;
  monitors: Array<(reason: ExitReason) => void>;
}

/**
 * The processes of the stream by their addresses: handlers, clients, and the ticker by its name.
 * A message is delivered at once; one to an address that nobody has any more is lost, as the sender must expect.
 */
export class Processes {
  readonly #entries = new Map<Pid, Entry>();
  #spawned = 0;

  get size(): number {
    return this.#entries.size;
  }

  /** Starts a process with a new pid. @param create creates the process, and must not send to it */
  spawn(kind: 'handler' | 'client', create: (pid: Pid) => Process): Pid {
    const pid = `${kind}:${++this.#spawned}`;
    this.#entries.set(pid, { process: create(pid), monitors: [] });
    return pid;
  }

  /**
   * Starts a process under a name of its own.
   *
   * @throws {Error} when the name is taken
   */
  register(name: Pid, process: Process): void {
    if (this.#entries.has(name)) throw new Error(`a process is registered as ${name} already`);
    this.#entries.set(name, { process, monitors: [] });
  }

  /** Delivers `message`; an error that its receiver throws ends the receiver, not the sender. */
  send(to: Pid, message: LifecycleMessage): void {
    try {
      this.#entries.get(to)?.process.receive(message);
    } catch (error) {
      this.exit(to, error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Has `onExit` called once when the process ends, by whatever cause; at once where it has ended already. */
  monitor(pid: Pid, onExit: (reason: ExitReason) => void): void {
    const entry = this.#entries.get(pid);
    if (entry === undefined) onExit('normal');
    else entry.monitors.push(onExit);
  }

  /** Ends a process; one that has ended already stays as it is. */
  exit(pid: Pid, reason: ExitReason): void {
    const entry = this.#entries.get(pid);
    if (entry === undefined) return;
    this.#entries.delete(pid);
    for (const onExit of entry.monitors) onExit(reason);
  }
}
