import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { DiscardPolicy, type JetStreamManager, jetstream, type StreamConfig } from '@nats-io/jetstream';
import { type KV, Kvm } from '@nats-io/kv';
import type { NatsConnection } from '@nats-io/transport-node';
import type { Log } from '../log.ts';
import type { TickFeed } from '../ticker/tick-feed.ts';
import { KvTokenStore, type KvTokenStoreOptions } from './kv-token-store.ts';
import { LEASE_MS, Lease } from './lease.ts';
import { NatsLink } from './nats-link.ts';
import { NatsTickFeed } from './nats-tick-feed.ts';

/*
 * NATS state of the ticker. P is the prefix (NATS_PREFIX).
 *
 * | stream       | subject              | writer                     | reader                      | bound (past it)                  |
 * |--------------|----------------------|----------------------------|-----------------------------|----------------------------------|
 * | P-tick       | P.tick               | tick feed of the leader    | tick feeds of all nodes     | 1 message (evicts oldest)        |
 * | KV_P-lease   | $KV.P-lease.producer | lease of the leader        | leases of all nodes         | LEASE_MS since the last renewal  |
 * | KV_P-tokens  | $KV.P-tokens.<jti>   | token store                | token stores, by a watch    | 110,000 entries (refuses), 1 h   |
 *
 * `queue/streams.ts` lists the streams of the queue.
 */

export interface NatsStateOptions {
  connection: NatsConnection;
  /** Prefix of the names of buckets, streams and subjects, so that several deployments can share the servers. */
  prefix: string;
  /** Number of replicas of each stream. */
  replicas?: number;
  log: Log;
}

/** Timeout of a request to JetStream. */
const TIMEOUT_MS = 2_000;
/** Age at which the server removes an entry that no node has purged. It is at least the longest lifetime of a token. */
const TOKEN_BUCKET_TTL_MS = 3_600_000;
/** Bytes that the bucket's size limit allows per entry. Entries are smaller, so the limit on their number is reached first. */
const TOKEN_BYTES = 512;

export type TokenStoreOptions = NatsStateOptions &
  Partial<Pick<KvTokenStoreOptions, 'maxTokens' | 'maxTokensPerKey' | 'maxRevocations'>>;

/**
 * Opens the store of the tokens that all nodes share, in a bucket of JetStream.
 *
 * @throws {Error} if the servers have no JetStream or reject the settings
 */
export async function openKvTokenStore({
  connection,
  prefix,
  replicas = 1,
  log,
  maxTokens = 100_000,
  maxTokensPerKey = 1000,
  maxRevocations = 10_000,
}: TokenStoreOptions): Promise<KvTokenStore> {
  const js = jetstream(connection, { timeout: TIMEOUT_MS });
  const maxEntries = maxTokens + maxRevocations;
  const bounds = { max_bytes: maxEntries * TOKEN_BYTES };
  const name = `${prefix}-tokens`;
  const openBucket = async (): Promise<KV> => {
    // Reads go to the leader of the stream's replicas, because a follower may lag and miss a new token or a revocation.
    const reads = { allow_direct: false };
    const config = { ttl: TOKEN_BUCKET_TTL_MS, history: 1, replicas, ...bounds, ...reads };
    const bucket = await new Kvm(js).create(name, config);
    // Sets a bound on the number of messages: at that bound, the bucket refuses new tokens, but still accepts revocations. At its
    // bound in bytes, it would evict old tokens on some servers.
    const { streamInfo } = await bucket.status();
    const settings = { max_msgs: maxEntries, num_replicas: replicas, ...bounds, ...reads };
    await updateSettings(await js.jetstreamManager(), streamInfo.config, settings);
    return bucket;
  };
  const purge = async (id: string) => {
    const { streams } = await js.jetstreamManager(false);
    await streams.purge(`KV_${name}`, { filter: `$KV.${name}.${id}` });
  };
  // Opened at once, so that the startup fails if the server has no JetStream or rejects the settings.
  await openBucket();
  const link = new NatsLink(connection);
  const store = new KvTokenStore({ link, openBucket, purge, maxTokens, maxTokensPerKey, maxRevocations, log });
  await Promise.race([store.loaded, setTimeout(TIMEOUT_MS, undefined, { ref: false })]);
  return store;
}

/**
 * Opens the feed through which the leader's ticks reach all nodes. Returns undefined if a seed is set, because all nodes then
 * compute the same prices.
 *
 * @throws {Error} if the servers have no JetStream or reject the settings
 */
export async function openTickFeed({
  connection,
  prefix,
  replicas = 1,
  log,
  seed,
  intervalMs,
}: NatsStateOptions & { seed?: string | undefined; intervalMs: number }): Promise<TickFeed | undefined> {
  if (seed !== undefined) return undefined;
  const js = jetstream(connection, { timeout: TIMEOUT_MS });
  const manager = await js.jetstreamManager();
  const link = new NatsLink(connection);
  const subject = `${prefix}.tick`;
  const stream = `${prefix}-tick`;

  /**
   * Opens the bucket of the lease, and the stream that keeps the last tick. A starting node and a new leader resume from that tick.
   * All other ticks are received by subscriptions to the subject.
   */
  const openStreams = async (): Promise<KV> => {
    const bounds = { max_msgs: 1, max_bytes: 1024 * 1024, discard: DiscardPolicy.Old };
    const config = { name: stream, subjects: [subject], num_replicas: replicas, ...bounds };
    const found = await manager.streams.info(stream).catch(() => manager.streams.add(config));
    await updateSettings(manager, found.config, { num_replicas: replicas });
    const bucket = { ttl: LEASE_MS, history: 1, replicas, max_bytes: 1024 * 1024 };
    const lease = await new Kvm(js).create(`${prefix}-lease`, bucket);
    await updateSettings(manager, (await lease.status()).streamInfo.config, { num_replicas: replicas });
    return lease;
  };
  const resume = async () => {
    const last = await manager.streams.getMessage(stream, { last_by_subj: subject });
    if (last !== null) feed.resumeFrom(last.data);
  };

  // Opened at once, so that the startup fails if the server has no JetStream or rejects the settings.
  await openStreams();
  const lease = new Lease({ link, openBucket: openStreams, holder: randomUUID(), onTaken: resume, log });
  const feed = new NatsTickFeed({ link, lease, subject, intervalMs });
  await resume();
  return feed;
}

/** Updates the settings of a stream if they differ from `settings`. */
async function updateSettings(manager: JetStreamManager, found: StreamConfig, settings: Partial<StreamConfig>) {
  const same = Object.entries(settings).every(([name, value]) => found[name as keyof StreamConfig] === value);
  if (!same) await manager.streams.update(found.name, settings);
}
