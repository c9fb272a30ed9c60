import type { NatsConnection } from '@nats-io/transport-node';

/**
 * Tracks whether a connection to NATS is up. Callers check `up` before they send, because the client library buffers messages
 * without a bound while disconnected, and sends them late.
 */
export class NatsLink {
  readonly connection: NatsConnection;
  readonly #onUp = new Set<() => void>();
  #up = true;

  /** @param connection a connection that is up, or that will report `reconnect` */
  constructor(connection: NatsConnection) {
    this.connection = connection;
    void this.#watchStatus();
  }

  get up(): boolean {
    return this.#up && !this.connection.isClosed();
  }

  /** Calls `callback` after every reconnect. @returns a function that ends these calls */
  onUp(callback: () => void): () => void {
    this.#onUp.add(callback);
    return () => this.#onUp.delete(callback);
  }

  async #watchStatus(): Promise<void> {
    for await (const { type } of this.connection.status()) {
      if (type === 'disconnect' || type === 'staleConnection') this.#up = false;
      if (type !== 'reconnect') continue;
      this.#up = true;
      for (const callback of this.#onUp) callback();
    }
  }
}
