import type { NatsConnection } from '@nats-io/transport-node';

/**
 * Whether a connection to NATS is up. What is sent while it is not would wait in the client's memory, without a bound,
 * and go out when nobody expects it any more.
 */
export class NatsLink {
  readonly connection: NatsConnection;
  readonly #onUp = new Set<() => void>();
  #up = true;

  /** @param connection one that is up, or will tell so */
  constructor(connection: NatsConnection) {
    this.connection = connection;
    void this.#follow();
  }

  get up(): boolean {
    return this.#up && !this.connection.isClosed();
  }

  /** Has `callback` called whenever the connection is back. @returns a function that ends that */
  onUp(callback: () => void): () => void {
    this.#onUp.add(callback);
    return () => this.#onUp.delete(callback);
  }

  async #follow(): Promise<void> {
    for await (const { type } of this.connection.status()) {
      if (type === 'disconnect' || type === 'staleConnection') this.#up = false;
      if (type !== 'reconnect') continue;
      this.#up = true;
      for (const callback of this.#onUp) callback();
    }
  }
}
