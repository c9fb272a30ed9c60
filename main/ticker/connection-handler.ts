import { closeCodes } from './close-codes.ts';
import type { Actor, LifecycleMessage, Monitor, Pid, PidRegistry, WsSend } from './pid-registry.ts';
import type { RemovalReason } from './token-store.ts';

export const TICKER = 'ticker';

/** Handler of a WebSocket connection. */
class ConnectionHandler implements Actor {
  readonly #actors: PidRegistry;
  readonly #pid: Pid;
  readonly #actorId: string;
  #client: Pid | undefined;

  constructor(actors: PidRegistry, pid: Pid, actorId: string) {
    this.#actors = actors;
    this.#pid = pid;
    this.#actorId = actorId;
  }

  receive(message: LifecycleMessage): void {
    const actors = this.#actors;
    switch (message.topic) {
      case 'ws.join':
        this.#client = message.client_pid;
        actors.send(this.#client, text({ type: 'welcome', user_id: this.#actorId }));
        actors.send(TICKER, { topic: 'subscribe', client_pid: this.#client, handler_pid: this.#pid });
        break;
      case 'ws.message':
        if (this.#client !== undefined && isPing(message.data)) actors.send(this.#client, pong);
        break;
      case 'ws.leave':
        actors.send(TICKER, { topic: 'unsubscribe', handler_pid: this.#pid });
        actors.exit(this.#pid, 'normal');
    }
  }
}

/** Starts the handler of a WebSocket connection. @param actorId `user:<user_id>` */
export function createHandler(actors: PidRegistry, actorId: string): Pid {
  return actors.spawn('handler', (pid) => new ConnectionHandler(actors, pid, actorId));
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
  readonly #handlers = new Map<string, TokenHandlers>();

  constructor(actors: PidRegistry) {
    this.#actors = actors;
  }

  get size(): number {
    return this.#handlers.size;
  }

  add(tokenId: string, handler: Pid): void {
    const handlers = this.#handlers.get(tokenId) ?? new TokenHandlers(() => this.#handlers.delete(tokenId));
    this.#handlers.set(tokenId, handlers.add(handler));
    this.#actors.monitor(handler, handlers);
  }

  end(tokenId: string, end: RemovalReason): void {
    const reason = end === 'token revoked' ? closeCodes.tokenRevoked : closeCodes.tokenExpired;
    for (const handler of [...(this.#handlers.get(tokenId) ?? [])]) this.#actors.exit(handler, reason);
  }
}

/** Running handlers of one token. */
class TokenHandlers extends Set<Pid> implements Monitor {
  readonly #onEmpty: () => void;

  constructor(onEmpty: () => void) {
    super();
    this.#onEmpty = onEmpty;
  }

  onExit(handler: Pid): void {
    this.delete(handler);
    if (this.size === 0) this.#onEmpty();
  }
}
