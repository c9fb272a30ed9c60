import { mock } from 'node:test';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { type KV, Kvm } from '@nats-io/kv';
import { KvTokenStore } from '../../main/cluster/kv-token-store.ts';
import { openKvTokenStore } from '../../main/cluster/ticker-state.ts';
import { afterTest } from '../support/cleanup.ts';
import type { NatsServer } from '../support/nats-server.ts';

const HOUR_MS = 3_600_000;
export const inAnHour = () => Date.now() + HOUR_MS;

/** Opens a node's store over its own connection. */
export async function open(
  server: NatsServer,
  maxTokens = 1000,
  maxTokensPerKey = 1000,
  maxRevocations = 20,
): Promise<KvTokenStore & { removed: unknown[] }> {
  const store = await openKvTokenStore(await server.link(), { maxTokens, maxTokensPerKey, maxRevocations });
  afterTest(() => store.close());
  const removed: unknown[] = [];
  store.onRemove = (...of) => removed.push(of);
  return Object.assign(store, { removed });
}

/** Opens a store whose watch delivers nothing, and whose reads are answered once `held` is fulfilled. */
export async function openDeaf(server: NatsServer, held = async () => {}) {
  await open(server);
  const real = await bucketOf(server);
  const questions: string[] = [];
  const bucket: KV = Object.create(real, {
    watch: { value: () => real.watch({ key: 'nothing' }) },
    get: {
      async value(id: string) {
        questions.push(id);
        const entry = await real.get(id);
        await held();
        return entry;
      },
    },
  });
  const store = new KvTokenStore({
    link: await server.link(),
    openBucket: async () => bucket,
    purge: async () => {},
    maxTokens: 100,
    maxTokensPerKey: 1000,
    maxRevocations: 100,
  });
  afterTest(() => store.close());
  await store.loaded;
  return { store, questions };
}

/** Opens a store with parts of its bucket replaced, or with a given `purge`. */
export async function openChanged(server: NatsServer, change: { bucket?: KV; purge?: () => Promise<void> }) {
  await open(server);
  const bucket = change.bucket ?? (await bucketOf(server));
  const store = new KvTokenStore({
    link: await server.link(),
    openBucket: async () => bucket,
    purge: change.purge ?? (async () => {}),
    maxTokens: 100,
    maxTokensPerKey: 1,
    maxRevocations: 100,
  });
  afterTest(() => store.close());
  await store.loaded;
  return store;
}

/** Removes an entry as a purge does, without leaving a delete marker. */
export async function purge(server: NatsServer, id: string): Promise<void> {
  const { streams } = await jetstreamManager(await server.connect());
  await streams.purge('KV_spec-tokens', { filter: `$KV.spec-tokens.${id}` });
}

/** Mocks the monotonic clock. The returned function advances it. */
export function shiftedClock(): (ms: number) => void {
  const now = performance.now.bind(performance);
  let shift = 0;
  const clock = mock.method(performance, 'now', () => now() + shift);
  afterTest(() => clock.mock.restore());
  return (ms) => {
    shift += ms;
  };
}

/** Opens the bucket directly, without a store. */
export async function bucketOf(server: NatsServer): Promise<KV> {
  return new Kvm(jetstream(await server.connect())).open('spec-tokens');
}

/** Returns a function that counts the messages in the bucket, delete markers included. */
export function messagesIn(bucket: KV): () => Promise<number> {
  return async () => (await bucket.status()).streamInfo.state.messages;
}

export const failure = async (attempt: unknown) => {
  try {
    return await attempt;
  } catch (error) {
    return error;
  }
};
