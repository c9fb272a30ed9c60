import { EventEmitter } from 'node:events';
import {
  connectDirectly,
  type DirectOptions,
  listen,
  type PostgresClient,
  type Query,
  reasonOf,
} from '../../db/postgres/database.ts';
import type { Clock, Random } from '../../workers/shared/clock.ts';
import type { Log } from '../log/log.ts';

type Connection = Pick<PostgresClient, 'rows' | 'destroy'>;

/** Opens a connection. @throws {Error} if the server cannot be reached */
export type Connect = (databaseUrl: string, options: DirectOptions) => Promise<Connection>;

export interface LinkOptions {
  databaseUrl: string;
  /** By default, opens a connection to PostgreSQL. */
  connect?: Connect;
  clock: Clock;
  random: Random;
  log: Log;
}

interface LinkEvents {
  notification: [payload: string];
  /** The connection is open and listens. Notifications may have been missed before. */
  up: [];
  lost: [];
}

/** Statement timeout. A connection that does not answer for this long counts as lost. */
const TIME_LIMIT_MS = 2000;
const FIRST_DELAY_MS = 100;
/** Far below the time after which other nodes take a disconnected node for dead. */
const MAX_DELAY_MS = 2000;

/** A direct connection to PostgreSQL that listens to notifications. It is opened again whenever it is lost. */
export class Link extends EventEmitter<LinkEvents> {
  readonly #options: LinkOptions;
  #connection: Connection | undefined;
  #failures = 0;
  #isClosed = false;
  #cancelRetry = () => {};

  constructor(options: LinkOptions) {
    super();
    this.#options = options;
  }

  get isUp(): boolean {
    return this.#connection !== undefined;
  }

  /** Opens the first connection. @throws {Error} if the server cannot be reached */
  async open(): Promise<void> {
    const { databaseUrl, connect = connectDirectly } = this.#options;
    // Undefined until `connect` resolves. A loss before that rejects `connect`.
    let opened: Connection | undefined;
    const onLost = (reason: string) => {
      if (this.#connection === opened) this.drop(reason);
    };
    const onNotification = (payload: string) => void this.emit('notification', payload);
    const connection = await connect(databaseUrl, { timeLimitMs: TIME_LIMIT_MS, onNotification, onLost });
    opened = connection;
    try {
      await listen((text) => connection.rows(text, [], TIME_LIMIT_MS));
      if (this.#isClosed) throw new Error('the connection is closed');
    } catch (error) {
      connection.destroy();
      throw error;
    }
    this.#connection = connection;
    this.#failures = 0;
    this.emit('up');
  }

  /** @throws {Error} if the connection is lost, or the statement fails */
  readonly query: Query = async (text, values = [], timeLimitMs = TIME_LIMIT_MS) => {
    if (this.#connection === undefined) throw new Error('the connection to PostgreSQL is lost');
    return this.#connection.rows(text, values, timeLimitMs);
  };

  /** Gives up a connection that is lost or does not answer, and opens another one. */
  drop(reason: string): void {
    if (this.#connection === undefined) return;
    this.#connection.destroy();
    this.#connection = undefined;
    this.#options.log.warn({ reason }, 'a connection to PostgreSQL was lost');
    this.emit('lost');
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
