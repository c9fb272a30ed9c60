import type { LifecycleMessage, Pid, WsSend } from '../../workers/messages.ts';
import type { PidRegistry, Process } from './pid-registry.ts';

/** Pid of the ticker: the fixed name under which it is registered. */
export const TICKER = 'ticker';

/** Serves one WebSocket connection until it closes: welcomes the client, subscribes it to the ticker, and answers its pings. */
class Handler implements Process {
  readonly #pid: Pid;
  readonly #processes: PidRegistry;
  readonly #actorId: string;
  #client: Pid | undefined;

  constructor(pid: Pid, processes: PidRegistry, actorId: string) {
    this.#pid = pid;
    this.#processes = processes;
    this.#actorId = actorId;
  }

  receive(message: LifecycleMessage): void {
    switch (message.topic) {
      case 'ws.join':
        this.#join(message.client_pid);
        break;
      case 'ws.message':
        if (this.#client !== undefined && isPing(message.data)) this.#processes.send(this.#client, pong);
        break;
      case 'ws.leave':
        this.#processes.send(TICKER, { topic: 'unsubscribe', handler_pid: this.#pid });
        this.#processes.exit(this.#pid, 'normal');
    }
  }

  #join(client: Pid): void {
    this.#client = client;
    this.#processes.send(client, text({ type: 'welcome', user_id: this.#actorId }));
    this.#processes.send(TICKER, { topic: 'subscribe', client_pid: client, handler_pid: this.#pid });
  }
}

/** Starts the handler of one connection for the actor with id `actorId` (`user:<user_id>`). */
export function createHandler(processes: PidRegistry, actorId: string): Pid {
  return processes.spawn('handler', (pid) => new Handler(pid, processes, actorId));
}

function text(message: { type: 'welcome'; user_id: string } | { type: 'pong' }): WsSend {
  return { topic: 'ws.send', type: 'text', data: JSON.stringify(message) };
}

const pong = text({ type: 'pong' });

/** Whether the text of a client's message is JSON of the type `ping`. All other messages are ignored. */
function isPing(data: string): boolean {
  try {
    const message: { type?: unknown } | null = JSON.parse(data);
    return message?.type === 'ping';
  } catch {
    return false;
  }
}
