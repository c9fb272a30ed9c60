import { randomUUID } from 'node:crypto';
import { DiscardPolicy, type JetStreamManager, jetstream, type StreamConfig } from '@nats-io/jetstream';
import { type KV, Kvm } from '@nats-io/kv';
import type { NatsConnection } from '@nats-io/transport-node';
import type { Log } from '../log.ts';
import type { TickFeed } from '../ticker/tick-feed.ts';
import { KvTokenStore } from './kv-token-store.ts';
import { LEASE_MS, Lease } from './lease.ts';
import { NatsLink } from './nats-link.ts';
import { NatsTickFeed } from './nats-tick-feed.ts';

export interface NatsTickerOptions {
  connection: NatsConnection;
  /** Begins the names of buckets, streams and subjects, so that several deployments can share a server. */
  prefix?: string;
  /** How many servers keep each message. */
  replicas?: number;
  log: Log;
}

const PREFIX = 'ticker-and-tasks';
/** How long the server may take to answer. */
const TIMEOUT_MS = 2_000;
/** Longest lifetime of a token. The server removes what no node has purged by then. */
const TOKEN_BUCKET_TTL_MS = 3_600_000;
/** Of one token in the bucket, at most; enough that the bound by number is met first. */
const TOKEN_BYTES = 512;

/**
 * Opens the tokens that all nodes share, in a bucket of JetStream.
 *
 * @param maxTokens past it no further one is taken
 * @param maxTokensPerKey past it the oldest token of the same API key is evicted
 * @param maxRevocations entries for the marks of revoked tokens, so that those take no token's entry
 */
export async function openKvTokenStore({
  connection,
  prefix = PREFIX,
  replicas = 1,
  log,
  maxTokens = 100_000,
  maxTokensPerKey = 1000,
  maxRevocations = 10_000,
}: NatsTickerOptions & {
  maxTokens?: number;
  maxTokensPerKey?: number;
  maxRevocations?: number;
}): Promise<KvTokenStore> {
  const js = jetstream(connection, { timeout: TIMEOUT_MS });
  const maxEntries = maxTokens + maxRevocations;
  const bounds = { max_bytes: maxEntries * TOKEN_BYTES };
  const name = `${prefix}-tokens`;
  const openBucket = async (): Promise<KV> => {
    // A read goes to the leader: a follower may not have heard of a token yet, or of its end.
    const reads = { allow_direct: false };
    const bucket = await new Kvm(js).create(name, {
      ttl: TOKEN_BUCKET_TTL_MS,
      history: 1,
      replicas,
      ...bounds,
      ...reads,
    });
    // A bucket that is full by its bytes drops old tokens on some servers; by number it refuses new ones, and no revocation.
    const { streamInfo } = await bucket.status();
    const settings = { max_msgs: maxEntries, num_replicas: replicas, ...bounds, ...reads };
    await bring(await js.jetstreamManager(), streamInfo.config, settings);
    return bucket;
  };
  const purge = async (id: string) => {
    const { streams } = await js.jetstreamManager(false);
    await streams.purge(`KV_${name}`, { filter: `$KV.${name}.${id}` });
  };
  // Fails here, and not later on, where the server lacks what it takes.
  await openBucket();
  const link = new NatsLink(connection);
  const store = new KvTokenStore({ link, openBucket, purge, maxTokens, maxTokensPerKey, maxRevocations, log });
  const patience = Promise.withResolvers<void>();
  const timer = setTimeout(patience.resolve, TIMEOUT_MS);
  await Promise.race([store.loaded, patience.promise]);
  clearTimeout(timer);
  return store;
}

/**
 * Opens the feed that makes one ticker of all nodes' tickers; with a seed all make the same prices by themselves, and there is
 * none.
 */
export async function openTickFeed({
  connection,
  prefix = PREFIX,
  replicas = 1,
  log,
  seed,
  intervalMs,
}: NatsTickerOptions & { seed?: string | undefined; intervalMs: number }): Promise<TickFeed | undefined> {
  if (seed !== undefined) return undefined;
  const js = jetstream(connection, { timeout: TIMEOUT_MS });
  const manager = await js.jetstreamManager();
  const link = new NatsLink(connection);
  const subject = `${prefix}.tick`;
  const stream = `${prefix}-tick`;

  /** The stream keeps the last tick, for who has heard none; the ticks themselves go past it. */
  const openStreams = async (): Promise<KV> => {
    const bounds = { max_msgs: 1, max_bytes: 1024 * 1024, discard: DiscardPolicy.Old };
    const config = { name: stream, subjects: [subject], num_replicas: replicas, ...bounds };
    const found = await manager.streams.info(stream).catch(() => manager.streams.add(config));
    await bring(manager, found.config, { num_replicas: replicas });
    const bucket = { ttl: LEASE_MS, history: 1, replicas, max_bytes: 1024 * 1024 };
    const lease = await new Kvm(js).create(`${prefix}-lease`, bucket);
    await bring(manager, (await lease.status()).streamInfo.config, { num_replicas: replicas });
    return lease;
  };
  const resume = async () => {
    const last = await manager.streams.getMessage(stream, { last_by_subj: subject });
    if (last !== null) feed.resumeFrom(last.data);
  };

  // Fails here, and not later on, where the server lacks what it takes.
  await openStreams();
  const lease = new Lease({ link, openBucket: openStreams, holder: randomUUID(), onTaken: resume, log });
  const feed = new NatsTickFeed({ link, lease, subject, intervalMs });
  await resume();
  return feed;
}

/** Brings a stream that is there already to these settings, where it has others. */
async function bring(manager: JetStreamManager, found: StreamConfig, settings: Partial<StreamConfig>): Promise<void> {
  const same = Object.entries(settings).every(([name, value]) => found[name as keyof StreamConfig] === value);
  if (!same) await manager.streams.update(found.name, settings);
}
