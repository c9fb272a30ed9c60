import type { Pid } from '../../workers/messages.ts';
import { closeCodes } from './close-codes.ts';
import type { PidRegistry } from './pid-registry.ts';
import type { RemovalReason } from './token-store.ts';

/** Ends WebSocket handlers when the token that their client presented is revoked or expires. */
export class HandlersByToken {
  readonly #processes: PidRegistry;
  readonly #handlers = new Map<string, Set<Pid>>();

  constructor(processes: PidRegistry) {
    this.#processes = processes;
  }

  get size(): number {
    return this.#handlers.size;
  }

  add(tokenId: string, handler: Pid): void {
    const handlers = this.#handlers.get(tokenId) ?? new Set();
    this.#handlers.set(tokenId, handlers.add(handler));
    this.#processes.monitor(handler, () => {
      handlers.delete(handler);
      if (handlers.size === 0 && this.#handlers.get(tokenId) === handlers) this.#handlers.delete(tokenId);
    });
  }

  end(tokenId: string, end: RemovalReason): void {
    const reason = end === 'token revoked' ? closeCodes.tokenRevoked : closeCodes.tokenExpired;
    for (const handler of [...(this.#handlers.get(tokenId) ?? [])]) this.#processes.exit(handler, reason);
  }
}
