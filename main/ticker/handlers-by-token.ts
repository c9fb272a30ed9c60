import type { Pid } from '../../workers/messages.ts';
import { closeCodes } from './close-codes.ts';
import type { Monitor, PidRegistry } from './pid-registry.ts';
import type { RemovalReason } from './token-store.ts';

/** Ends WebSocket handlers when the token that their client presented is revoked or expires. */
export class HandlersByToken {
  readonly #processes: PidRegistry;
  readonly #holders = new Map<string, TokenHolders>();

  constructor(processes: PidRegistry) {
    this.#processes = processes;
  }

  get size(): number {
    return this.#holders.size;
  }

  add(tokenId: string, handler: Pid): void {
    let holders = this.#holders.get(tokenId);
    if (holders === undefined) {
      holders = new TokenHolders(() => this.#holders.delete(tokenId));
      this.#holders.set(tokenId, holders);
    }
    holders.handlers.add(handler);
    this.#processes.monitor(handler, holders);
  }

  end(tokenId: string, end: RemovalReason): void {
    const reason = end === 'token revoked' ? closeCodes.tokenRevoked : closeCodes.tokenExpired;
    for (const handler of [...(this.#holders.get(tokenId)?.handlers ?? [])]) this.#processes.exit(handler, reason);
  }
}

/** Running handlers of one token. */
class TokenHolders implements Monitor {
  readonly handlers = new Set<Pid>();
  readonly #onEmpty: () => void;

  constructor(onEmpty: () => void) {
    this.#onEmpty = onEmpty;
  }

  onExit(handler: Pid): void {
    this.handlers.delete(handler);
    if (this.handlers.size === 0) this.#onEmpty();
  }
}
