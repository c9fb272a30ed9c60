import type { LifecycleMessage, Pid } from '../../workers/messages.ts';
import type { CloseCode } from './close-codes.ts';

/** Actor (not an OS process) that receives the messages sent to its pid. The actor ends if `receive` throws. */
export interface Process {
  receive(message: LifecycleMessage): void;
}

/** Why an actor ended: `normal`, a close code for its client, or an error. */
export type ExitReason = 'normal' | CloseCode | Error;

/** Notified once when an actor that it monitors ends. */
export interface Monitor {
  onExit(pid: Pid, reason: ExitReason): void;
}

/** Registry of actors by pid. Delivers messages synchronously, and discards messages to an unknown pid. */
export class PidRegistry {
  readonly #entries = new Map<Pid, { process: Process; monitors: readonly Monitor[] }>();
  #spawned = 0;

  get size(): number {
    return this.#entries.size;
  }

  /** Adds an actor and returns its new pid. @param create creates the actor; must not send messages to the new pid */
  spawn(kind: 'handler' | 'client', create: (pid: Pid) => Process): Pid {
    const pid = `${kind}:${++this.#spawned}`;
    this.#entries.set(pid, { process: create(pid), monitors: [] });
    return pid;
  }

  /** Adds an actor with a fixed name as its pid. @throws {Error} if the name is in use */
  register(name: Pid, process: Process): void {
    if (this.#entries.has(name)) throw new Error(`a process named ${name} is already registered`);
    this.#entries.set(name, { process, monitors: [] });
  }

  /** Delivers a message. An error thrown by the receiver ends the receiver, not the sender. */
  send(to: Pid, message: LifecycleMessage): void {
    try {
      this.#entries.get(to)?.process.receive(message);
    } catch (error) {
      this.exit(to, error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Notifies `monitor` when the actor ends for any reason, or immediately if the actor has already ended. */
  monitor(pid: Pid, monitor: Monitor): void {
    const entry = this.#entries.get(pid);
    if (entry === undefined) monitor.onExit(pid, 'normal');
    // Copied, because `push` would reserve space for 16 more monitors.
    else entry.monitors = [...entry.monitors, monitor];
  }

  exit(pid: Pid, reason: ExitReason): void {
    const entry = this.#entries.get(pid);
    if (entry === undefined) return;
    this.#entries.delete(pid);
    for (const monitor of entry.monitors) monitor.onExit(pid, reason);
  }
}
