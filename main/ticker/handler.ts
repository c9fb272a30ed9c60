import type { Pid, WsSend } from '../../workers/messages.ts';
import type { PidRegistry } from './pid-registry.ts';

export const TICKER = 'ticker';

/** Starts the handler of a WebSocket connection. @param actorId `user:<user_id>` */
export function createHandler(processes: PidRegistry, actorId: string): Pid {
  let client: Pid | undefined;
  const handler = processes.spawn('handler', () => ({
    receive(message) {
      switch (message.topic) {
        case 'ws.join':
          client = message.client_pid;
          processes.send(client, text({ type: 'welcome', user_id: actorId }));
          processes.send(TICKER, { topic: 'subscribe', client_pid: client, handler_pid: handler });
          break;
        case 'ws.message':
          if (client !== undefined && isPing(message.data)) processes.send(client, pong);
          break;
        case 'ws.leave':
          processes.send(TICKER, { topic: 'unsubscribe', handler_pid: handler });
          processes.exit(handler, 'normal');
      }
    },
  }));
  return handler;
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
