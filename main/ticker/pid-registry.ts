/** Address of an actor: a handler, a client's connection or the ticker. Not the id of an OS process. */
export type Pid = string;

export type LifecycleMessage =
  /** Sent to the handler of a new connection. The handler sends its replies to `client_pid`. `protocol` is set for `ticker.v2`. */
  | { topic: 'ws.join'; client_pid: Pid; protocol?: string }
  | { topic: 'ws.message'; data: string }
  | { topic: 'ws.leave'; reason: string }
  | { topic: 'subscribe'; client_pid: Pid; handler_pid: Pid }
  | { topic: 'unsubscribe'; handler_pid: Pid }
  | WsSend;

/** Message to the actor of a client's connection, which sends `data` (JSON text) to the client as one frame. */
export interface WsSend {
  topic: 'ws.send';
  type: 'text';
  data: string;
}

/** Receives the messages sent to its pid. The actor ends if `receive` throws. */
export interface Actor {
  receive(message: LifecycleMessage): void;
}

export interface CloseCode {
  code: number;
  reason: string;
  reconnect: boolean;
}

/** Close codes that the server sends to WebSocket clients. */
export const closeCodes = {
  shuttingDown: { code: 1001, reason: 'server is shutting down', reconnect: true },
  // The `ws` library sends the codes 1002, 1007, 1008 and 1009.
  protocolError: { code: 1002, reason: '', reconnect: false },
  invalidText: { code: 1007, reason: '', reconnect: false },
  tooManyFragments: { code: 1008, reason: '', reconnect: false },
  messageTooBig: { code: 1009, reason: '', reconnect: false },
  tokenRevoked: { code: 4001, reason: 'token revoked', reconnect: false },
  /** Sent only if `TOKEN_EXPIRY_CLOSES` is set. */
  tokenExpired: { code: 4003, reason: 'token expired', reconnect: false },
  handlerFailed: { code: 1011, reason: 'handler failed', reconnect: true },
  /** A client that reconnects with the same message rate would be disconnected again. */
  tooManyMessages: { code: 4029, reason: 'too many messages', reconnect: false },
  tooSlow: { code: 4008, reason: 'client reads too slowly', reconnect: true },
} as const satisfies Record<string, CloseCode>;

/** Why an actor ended: `normal`, a close code for its client, or an error. */
export type ExitReason = 'normal' | CloseCode | Error;

/** Notified once when an actor that it monitors ends. */
export interface Monitor {
  onExit(pid: Pid, reason: ExitReason): void;
}

/** Registry of actors by pid. Delivers messages synchronously, and discards messages to an unknown pid. */
export class PidRegistry {
  readonly #entries = new Map<Pid, { actor: Actor; monitors: readonly Monitor[] }>();
  #spawned = 0;

  get size(): number {
    return this.#entries.size;
  }

  /** Adds an actor and returns its new pid. @param create creates the actor; must not send messages to the new pid */
  spawn(kind: 'handler' | 'client', create: (pid: Pid) => Actor): Pid {
    const pid = `${kind}:${++this.#spawned}`;
    this.#entries.set(pid, { actor: create(pid), monitors: [] });
    return pid;
  }

  /** Adds an actor with a fixed name as its pid. @throws {Error} if the name is in use */
  register(name: Pid, actor: Actor): void {
    if (this.#entries.has(name)) throw new Error(`an actor named ${name} is already registered`);
    this.#entries.set(name, { actor, monitors: [] });
  }

  /** Delivers a message. An error thrown by the receiver ends the receiver, not the sender. */
  send(to: Pid, message: LifecycleMessage): void {
    try {
      this.#entries.get(to)?.actor.receive(message);
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
