import { closeCodes } from './close-codes.ts';
import type { LifecycleMessage, Pid, PidRegistry, WsSend } from './pid-registry.ts';
import type { RemovalReason } from './token-store.ts';

export const TICKER = 'ticker';

/** Starts the handler of a WebSocket connection. @param actorId `user:<user_id>` */
export function createHandler(actors: PidRegistry, actorId: string): Pid {
  return actors.spawn('handler', (pid) => {
    let client: Pid | undefined;
    return {
      receive(message: LifecycleMessage): void {
        switch (message.topic) {
          case 'ws.join':
            client = message.client_pid;
            actors.send(client, text({ type: 'welcome', user_id: actorId }));
            actors.send(TICKER, { topic: 'subscribe', client_pid: client, handler_pid: pid });
            break;
          case 'ws.message':
            if (client !== undefined && isPing(message.data)) actors.send(client, pong);
            break;
          case 'ws.leave':
            actors.send(TICKER, { topic: 'unsubscribe', handler_pid: pid });
            actors.exit(pid, 'normal');
        }
      },
    };
  });
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

/** Ends handlers when the token that their client presented is revoked or expires. */
export class HandlersByToken {
  readonly #actors: PidRegistry;
  readonly #handlers = new Map<string, Set<Pid>>();

  constructor(actors: PidRegistry) {
    this.#actors = actors;
  }

  get size(): number {
    return this.#handlers.size;
  }

  add(tokenId: string, handler: Pid): void {
    const handlers = this.#handlers.get(tokenId) ?? new Set();
    this.#handlers.set(tokenId, handlers.add(handler));
    this.#actors.monitor(handler, {
      onExit: () => {
        handlers.delete(handler);
        if (handlers.size === 0) this.#handlers.delete(tokenId);
      },
    });
  }

  end(tokenId: string, end: RemovalReason): void {
    const reason = end === 'token revoked' ? closeCodes.tokenRevoked : closeCodes.tokenExpired;
    for (const handler of [...(this.#handlers.get(tokenId) ?? [])]) this.#actors.exit(handler, reason);
  }
}
