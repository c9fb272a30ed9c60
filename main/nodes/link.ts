import { type Query, reasonOf } from '../../db/postgres/database.ts';
import { connectDirectly, type DirectConnection, type DirectOptions } from '../../db/postgres/direct-connection.ts';
import type { Clock, Random } from '../../workers/shared/clock.ts';
import type { Log } from '../log/log.ts';

/** Opens a connection. @throws {Error} if the server cannot be reached */
export type Connect = (databaseUrl: string, options: DirectOptions) => Promise<DirectConnection>;

export interface LinkOptions {
  databaseUrl: string;
  /** By default, opens a connection to PostgreSQL. */
  connect?: Connect;
  /** Prepares each new connection. If it throws, the connection is opened again. */
  prepare: (query: Query) => Promise<void>;
  onNotification: (payload: string) => void;
  onUp: () => void;
  onLost: () => void;
  clock: Clock;
  random: Random;
  log: Log;
}

/** Statement timeout. A connection that does not answer for this long counts as lost. */
const TIME_LIMIT_MS = 2000;
const FIRST_DELAY_MS = 100;
/** Far below the time after which other nodes take a disconnected node for dead. */
const MAX_DELAY_MS = 2000;

/** A direct connection to PostgreSQL that is opened again whenever it is lost. */
export class Link {
  readonly #options: LinkOptions;
  #connection: DirectConnection | undefined;
  #failures = 0;
  #isClosed = false;
  #cancelRetry = () => {};

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  get isUp(): boolean {
    return this.#connection !== undefined;
  }

  /** Opens the first connection. @throws {Error} if the server cannot be reached */
  async open(): Promise<void> {
    const { databaseUrl, connect = connectDirectly, prepare, onNotification, onUp } = this.#options;
    // Undefined until `connect` resolves. A loss before that rejects `connect`.
    let opened: DirectConnection | undefined;
    const onLost = (reason: string) => {
      if (this.#connection === opened) this.drop(reason);
    };
    const connection = await connect(databaseUrl, { timeLimitMs: TIME_LIMIT_MS, onNotification, onLost });
    opened = connection;
    try {
      await prepare(connection.query);
      if (this.#isClosed) throw new Error('the connection is closed');
    } catch (error) {
      connection.destroy();
      throw error;
    }
    this.#connection = connection;
    this.#failures = 0;
    onUp();
  }

  /** @throws {Error} if the connection is lost, or the statement fails */
  readonly query: Query = async (text, values, timeLimitMs) => {
    if (this.#connection === undefined) throw new Error('the connection to PostgreSQL is lost');
    return this.#connection.query(text, values, timeLimitMs);
  };

  /** Gives up a connection that is lost or does not answer, and opens another one. */
  drop(reason: string): void {
    const { onLost, log } = this.#options;
    if (this.#connection === undefined) return;
    this.#connection.destroy();
    this.#connection = undefined;
    log.warn({ reason }, 'a connection to PostgreSQL was lost');
    onLost();
    this.#retry();
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelRetry();
    this.#connection?.destroy();
    this.#connection = undefined;
  }

  #retry(): void {
    if (this.#isClosed) return;
    const { clock, random, log } = this.#options;
    const delayMs = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#failures) * (0.5 + random.number() / 2);
    this.#failures += 1;
    this.#cancelRetry = clock.timer(delayMs, () => {
      this.open().then(
        () => log.info('connected to PostgreSQL again'),
        (error) => {
          log.debug({ reason: reasonOf(error) }, 'PostgreSQL cannot be reached');
          this.#retry();
        },
      );
    });
  }
}
