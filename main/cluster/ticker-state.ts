import { setTimeout } from 'node:timers/promises';
import { DiscardPolicy } from '@nats-io/jetstream';
import { nanos } from '@nats-io/transport-node';
import type { Config } from '../config.ts';
import type { TickFeed } from '../ticker/tick-feed.ts';
import { KvTokenStore, type TokenBounds } from './kv-token-store.ts';
import { LEASE_MS, Lease } from './lease.ts';
import { type NatsLink, REQUEST_TIMEOUT_MS } from './nats-link.ts';
import { NatsTickFeed } from './nats-tick-feed.ts';

/*
 * Streams and buckets of the ticker. P is the prefix (NATS_PREFIX).
 *
 * | stream       | subject              | writer                     | reader                      | limit (when reached)             |
 * |--------------|----------------------|----------------------------|-----------------------------|----------------------------------|
 * | P-tick       | P.tick               | tick feed of the leader    | tick feeds of all nodes     | 1 message (evicts oldest)        |
 * | KV_P-lease   | $KV.P-lease.producer | lease of the leader        | leases of all nodes         | LEASE_MS since the last renewal  |
 * | KV_P-tokens  | $KV.P-tokens.<jti>   | token store                | token stores, via a watch   | 110,000 entries (refuses), 1 h   |
 *
 * See `queue/queue-streams.ts` for the streams of the queue.
 */

/** Age at which JetStream deletes a token from its KV bucket. At least the longest token lifetime. */
const TOKEN_BUCKET_TTL_MS = 3_600_000;
/** Bytes allowed per entry of the KV bucket of tokens. Entries are smaller, so the entry limit is reached first. */
const TOKEN_BYTES = 512;
const ONE_MESSAGE_BYTES = 1024 * 1024;

/** Opens the token store in a JetStream KV bucket. @throws {Error} if NATS rejects the settings */
export async function openKvTokenStore(
  link: NatsLink,
  { maxTokens = 100_000, maxTokensPerKey = 1000, maxRevocations = 10_000 }: Partial<TokenBounds> = {},
): Promise<KvTokenStore> {
  const name = `${link.prefix}-tokens`;
  const max_msgs = maxTokens + maxRevocations;
  const max_age = nanos(TOKEN_BUCKET_TTL_MS);
  // The bucket reaches `max_msgs` first and refuses new tokens. At `max_bytes`, some servers would evict old tokens.
  const openBucket = () => link.openBucket(name, { max_age, max_msgs, max_bytes: max_msgs * TOKEN_BYTES });
  const purge = (id: string) => link.manager.streams.purge(`KV_${name}`, { filter: `$KV.${name}.${id}` });
  // Makes startup fail if the server rejects the settings.
  await openBucket();
  const store = new KvTokenStore({ link, openBucket, purge, maxTokens, maxTokensPerKey, maxRevocations });
  await Promise.race([store.loaded, setTimeout(REQUEST_TIMEOUT_MS, undefined, { ref: false })]);
  return store;
}

/**
 * Returns undefined if `seed` is set, because all nodes then compute the same prices.
 *
 * @throws {Error} if NATS rejects the settings
 */
export async function openTickFeed(
  link: NatsLink,
  { seed, intervalMs }: Config['ticker'],
): Promise<TickFeed | undefined> {
  if (seed !== undefined) return undefined;
  const subject = `${link.prefix}.tick`;
  const stream = `${link.prefix}-tick`;
  // The stream keeps the last tick, from which a starting node or a new leader continues.
  const openBucket = async () => {
    const max_bytes = ONE_MESSAGE_BYTES;
    await link.setUpStream(stream, { subjects: [subject], max_msgs: 1, max_bytes, discard: DiscardPolicy.Old });
    return link.openBucket(`${link.prefix}-lease`, { max_age: nanos(LEASE_MS), max_bytes });
  };
  const resume = async () => {
    const last = await link.manager.streams.getMessage(stream, { last_by_subj: subject });
    if (last !== null) feed.resumeFrom(last.data);
  };
  // Makes startup fail if the server rejects the settings.
  await openBucket();
  const lease = new Lease({ link, openBucket, onTaken: resume });
  const feed = new NatsTickFeed({ link, lease, subject, intervalMs });
  await resume();
  return feed;
}
