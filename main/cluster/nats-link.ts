import {
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstreamManager,
  type StreamConfig,
} from '@nats-io/jetstream';
import { type KV, Kvm } from '@nats-io/kv';
import { connect, type Msg, type NatsConnection, type Subscription } from '@nats-io/transport-node';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { Publications } from './publications.ts';

const PING_MS = 1_000;
const MAX_PINGS_OUT = 2;
const RETRY_MS = 250;
const CONNECT_TIMEOUT_MS = 2_000;
export const REQUEST_TIMEOUT_MS = 2_000;
const STREAM_NAME_IN_USE = 10058;
/** JetStream error code: an existing stream, perhaps of the same name, stores some of a new stream's subjects. */
const SUBJECTS_OVERLAP = 10065;
/** JetStream error code: fewer servers than replicas can store a new stream. */
const NO_SUITABLE_PEERS = 10005;
/** JetStream error code: the message was not stored, because a stream limit was reached or the disk failed. */
export const STORE_FAILED = 10077;

export type NatsSettings = Config['nats'] & { url: string };

/**
 * Connection to NATS servers with JetStream. Callers check `up` before sending, because a disconnected client buffers
 * messages without limit and sends them late.
 */
export class NatsLink {
  readonly connection: NatsConnection;
  readonly manager: JetStreamManager;
  readonly jetstream: JetStreamClient;
  readonly publications: Publications;
  /** Prefix of all bucket, stream and subject names. */
  readonly prefix: string;
  readonly log: Log;
  readonly #replicas: number;
  readonly #onUp = new Set<() => void>();
  #up = true;

  private constructor(connection: NatsConnection, manager: JetStreamManager, config: Config['nats'], log: Log) {
    this.connection = connection;
    this.manager = manager;
    this.jetstream = manager.jetstream();
    this.publications = new Publications(connection, REQUEST_TIMEOUT_MS);
    this.prefix = config.prefix;
    this.log = log;
    this.#replicas = config.replicas;
    void this.#watchStatus();
  }

  /** @throws {Error} if JetStream is not available */
  static async open(connection: NatsConnection, config: Config['nats'], log: Log): Promise<NatsLink> {
    return new NatsLink(connection, await jetstreamManager(connection, { timeout: REQUEST_TIMEOUT_MS }), config, log);
  }

  get up(): boolean {
    return this.#up && !this.connection.isClosed();
  }

  /** Returns the problem with the connection, or undefined when healthy. */
  problem(): string | undefined {
    return this.up ? undefined : 'NATS cannot be reached';
  }

  /** @throws {Error} if NATS is disconnected */
  checkUp(): void {
    const problem = this.problem();
    if (problem !== undefined) throw new Error(problem);
  }

  /** Calls `callback` after every reconnect. Returns a function that unregisters the callback. */
  onUp(callback: () => void): () => void {
    this.#onUp.add(callback);
    return () => this.#onUp.delete(callback);
  }

  /** Ignores subscription errors, such as a missing permission. */
  subscribe(subject: string, receive: (message: Msg) => void): Subscription {
    return this.connection.subscribe(subject, {
      callback: (error, message) => {
        if (error === null) receive(message);
      },
    });
  }

  /** Creates a stream, or updates the settings of an existing one. @throws {Error} if NATS rejects the settings */
  async setUpStream(name: string, settings: Partial<StreamConfig>): Promise<void> {
    const { streams } = this.manager;
    const config = { num_replicas: this.#replicas, ...settings };
    try {
      await streams.add({ name, ...config }).catch((error) => {
        if (!hasCode(error, STREAM_NAME_IN_USE, SUBJECTS_OVERLAP)) throw error;
        // If another node creates the stream at the same time, JetStream may report either error.
        return streams.update(name, config).catch((failure) => {
          throw hasCode(failure, JetStreamApiCodes.StreamNotFound) ? error : failure;
        });
      });
    } catch (error) {
      if (hasCode(error, NO_SUITABLE_PEERS))
        throw new Error(
          `the NATS cluster cannot store NATS_REPLICAS=${this.#replicas} copies: ${error.message}: ` +
            'start more servers, or set NATS_REPLICAS to a lower value',
          { cause: error },
        );
      if (hasCode(error, SUBJECTS_OVERLAP))
        throw new Error(
          `the JetStream stream ${name} cannot be created, because another stream already has its subjects ` +
            `(${config.subjects}): delete that stream, or set NATS_PREFIX to another value`,
          { cause: error },
        );
      throw error;
    }
  }

  /** Opens a KV bucket, creating the bucket or updating its settings. @throws {Error} if NATS rejects the settings */
  async openBucket(name: string, settings: Partial<StreamConfig>): Promise<KV> {
    await this.setUpStream(`KV_${name}`, {
      subjects: [`$KV.${name}.>`],
      max_msgs_per_subject: 1,
      discard: DiscardPolicy.New,
      allow_rollup_hdrs: true,
      // Reads from the stream leader, because a replica may lag behind.
      allow_direct: false,
      ...settings,
    });
    return new Kvm(this.jetstream).open(name);
  }

  async #watchStatus(): Promise<void> {
    for await (const { type } of this.connection.status()) {
      if (type === 'disconnect' || type === 'staleConnection') this.#up = false;
      if (type === 'disconnect') this.log.error('the connection to NATS is lost');
      if (type !== 'reconnect') continue;
      this.#up = true;
      this.log.info('connected to NATS again');
      for (const callback of this.#onUp) callback();
    }
  }
}

function hasCode(error: unknown, ...codes: number[]): error is JetStreamApiError {
  return error instanceof JetStreamApiError && codes.includes(error.code);
}

/** Connects to NATS, and reconnects forever. @throws {Error} with a one-line message if no server can be reached */
export async function connectNats(config: NatsSettings, log: Log): Promise<NatsLink> {
  const servers = config.url.split(',');
  const connection = await connect({
    servers: servers.map((server) => server.replace(/^(nats|tls):\/\/(.*@)?/, '')),
    ...credentials(servers[0] ?? ''),
    ...(servers.some((server) => server.startsWith('tls:')) && { tls: {} }),
    name: 'ticker-and-tasks',
    timeout: CONNECT_TIMEOUT_MS,
    maxReconnectAttempts: -1,
    // Keeps reconnecting even if the server temporarily rejects the credentials.
    ignoreAuthErrorAbort: true,
    reconnectTimeWait: RETRY_MS,
    reconnectJitter: RETRY_MS / 2,
    pingInterval: PING_MS,
    maxPingOut: MAX_PINGS_OUT,
    // Each request would capture two stack traces, in case it fails.
    noAsyncTraces: true,
  }).catch((error: Error) => {
    const where = servers.map((server) => new URL(server).host).join(', ');
    throw new Error(`cannot reach NATS at ${where}: ${error.message}: start it, or fix NATS_URL`, { cause: error });
  });
  const where = connection.getServer();
  try {
    checkReplicas(connection, config.replicas);
    return await NatsLink.open(connection, config, log);
  } catch (error) {
    await connection.close();
    if ((error as Error).name !== 'JetStreamNotEnabled') throw error;
    throw new Error(`the NATS server at ${where} has no JetStream: start it with "nats-server -js"`, { cause: error });
  }
}

/** Throws if streams need several replicas, but the server is not part of a cluster. */
function checkReplicas({ info }: NatsConnection, replicas: number): void {
  if (info?.cluster !== undefined || replicas === 1) return;
  throw new Error(
    `NATS_REPLICAS is ${replicas}, but the NATS cluster has 1 server: ` +
      'set NATS_REPLICAS to at most 1, or start more servers',
  );
}

/** A user name without a password is sent as a token. */
function credentials(server: string): { user?: string; pass?: string; token?: string } {
  const { username, password } = new URL(server);
  if (username === '') return {};
  const user = decodeURIComponent(username);
  return password === '' ? { token: user } : { user, pass: decodeURIComponent(password) };
}
