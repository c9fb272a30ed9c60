import type { Duplex } from 'node:stream';
import { Client } from 'pg';

/**
 * Client for a pool. If the connection attempt fails, closes the socket. pg leaves it open if the client itself ends the
 * authentication, for example because it has no password. The open socket would keep the process alive.
 */
export class PooledClient extends Client {
  override connect(): Promise<Client>;
  override connect(callback: (error: Error | null) => void): void;
  override connect(callback?: (error: Error | null) => void): Promise<Client> | undefined {
    // The pool always passes a callback.
    if (callback === undefined) return super.connect();
    super.connect((error: Error | null) => {
      if (error !== null && error !== undefined) this.#stream.destroy();
      callback(error);
    });
    return undefined;
  }

  get #stream(): Duplex {
    return (this as unknown as { connection: { stream: Duplex } }).connection.stream;
  }
}

/** Whether a connection attempt failed because the server requires a password and the client has none. */
export function lacksPassword(error: Error): boolean {
  return error.message.includes('client password must be a');
}
