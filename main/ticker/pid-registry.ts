import type { LifecycleMessage, Pid } from '../../workers/messages.ts';
import type { CloseCode } from './close-codes.ts';

/** A process (an actor, not an OS process) receives the messages sent to its pid. An error thrown by `receive` ends the process. */
export interface Process {
  receive(message: LifecycleMessage): void;
}

/** Why a process (an actor in the {@link PidRegistry}) ended: normally, with a close code for its client, or with an error. */
export type ExitReason = 'normal' | CloseCode | Error;

/**
 * The processes of the price stream by pid (address). A process is an actor: the handler of a connection, a client (the server's
 * end of a WebSocket), or the ticker, whose pid is its name. Messages are delivered synchronously. Messages to an unknown pid
 * are discarded.
 */
export class PidRegistry {
  readonly #entries = new Map<Pid, { process: Process; monitors: Array<(reason: ExitReason) => void> }>();
  #spawned = 0;

  get size(): number {
    return this.#entries.size;
  }

  /** Adds a process under a new pid and returns the pid. @param create creates the process; must not send messages to it */
  spawn(kind: 'handler' | 'client', create: (pid: Pid) => Process): Pid {
    const pid = `${kind}:${++this.#spawned}`;
    this.#entries.set(pid, { process: create(pid), monitors: [] });
    return pid;
  }

  /** Adds a process under a fixed name, which serves as its pid. @throws {Error} if the name is in use */
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

  /** Calls `onExit` once when the process ends for any reason, or immediately if it has already ended. */
  monitor(pid: Pid, onExit: (reason: ExitReason) => void): void {
    const entry = this.#entries.get(pid);
    if (entry === undefined) onExit('normal');
    else entry.monitors.push(onExit);
  }

  exit(pid: Pid, reason: ExitReason): void {
    const entry = this.#entries.get(pid);
    if (entry === undefined) return;
    this.#entries.delete(pid);
    for (const onExit of entry.monitors) onExit(reason);
  }
}
