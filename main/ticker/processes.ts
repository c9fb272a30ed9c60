import type { LifecycleMessage, Pid } from '../../workers/messages.ts';

/** Something with an address that messages can be sent to. It ends at the latest when `receive` throws. */
export interface Process {
  receive(message: LifecycleMessage): void;
}

/** Why a process ended: by itself, with the token that it was started with, or by an error that it did not mean. */
export type ExitReason = 'normal' | 'token revoked' | 'token expired' | Error;

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

  /** Starts a process under a fresh address. */
  spawn(kind: 'handler' | 'client', process: Process): Pid {
    const pid = `${kind}:${++this.#spawned}`;
    this.#entries.set(pid, { process, monitors: [] });
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
