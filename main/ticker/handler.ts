import type { LifecycleMessage, Pid, WsSend } from '../../workers/messages.ts';
import type { PidRegistry, Process } from './pid-registry.ts';

export const TICKER = 'ticker';

/** Handler of a WebSocket connection. */
class Handler implements Process {
  readonly #processes: PidRegistry;
  readonly #pid: Pid;
  readonly #actorId: string;
  #client: Pid | undefined;

  constructor(processes: PidRegistry, pid: Pid, actorId: string) {
    this.#processes = processes;
    this.#pid = pid;
    this.#actorId = actorId;
  }

  receive(message: LifecycleMessage): void {
    const processes = this.#processes;
    switch (message.topic) {
      case 'ws.join':
        this.#client = message.client_pid;
        processes.send(this.#client, text({ type: 'welcome', user_id: this.#actorId }));
        processes.send(TICKER, { topic: 'subscribe', client_pid: this.#client, handler_pid: this.#pid });
        break;
      case 'ws.message':
        if (this.#client !== undefined && isPing(message.data)) processes.send(this.#client, pong);
        break;
      case 'ws.leave':
        processes.send(TICKER, { topic: 'unsubscribe', handler_pid: this.#pid });
        processes.exit(this.#pid, 'normal');
    }
  }
}

/** Starts the handler of a WebSocket connection. @param actorId `user:<user_id>` */
export function createHandler(processes: PidRegistry, actorId: string): Pid {
  return processes.spawn('handler', (pid) => new Handler(processes, pid, actorId));
}

function text(message: { type: 'welcome'; user_id: string } | { type: 'pong' }): WsSend {
  return { topic: 'ws.send', type: 'text', data: JSON.stringify(message) };
}

const pong = text({ type: 'pong' });

function isPing(data: string): boolean {
  try {
    const message: { type?: unknown } | null = JSON.parse(data);
    return message?.type === 'ping';
  } catch {
    return false;
  }
}
