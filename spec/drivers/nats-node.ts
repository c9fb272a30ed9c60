import { jetstreamManager } from '@nats-io/jetstream';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { openNatsQueue } from '../../main/cluster/queue/queue.ts';
import type { Queue, TaskEvent } from '../../main/tasks/queue/queue.ts';
import { afterTest } from '../support/cleanup.ts';
import { openLink, sharedNatsServer } from '../support/nats-server.ts';
import { ownName } from '../support/servers.ts';
import type { QueueBounds } from './inbox.ts';

export const roomy: QueueBounds = { maxLength: 1000, maxBytes: 100_000, maxKeys: 100 };

/** Opens a connection that is closed after the test. */
export async function connection(url?: string): Promise<NatsConnection> {
  const servers = url ?? (await sharedNatsServer());
  const nats = await connect({ servers, maxReconnectAttempts: -1, reconnectTimeWait: 100 });
  afterTest(() => nats.close());
  return nats;
}

/** Returns a prefix for streams, which are deleted after the test. */
export function ownPrefix(nats: NatsConnection): string {
  const prefix = ownName();
  afterTest(async () => {
    const manager = await jetstreamManager(nats);
    for (const kind of ['tasks', 'letters', 'notes', 'keys', 'cancelled', 'pause'])
      await manager.streams.delete(`${prefix}-${kind}`);
  });
  return prefix;
}

export interface NodeOptions {
  nats: NatsConnection;
  prefix: string;
  bounds?: Partial<QueueBounds>;
  ackWaitMs?: number;
  holdMs?: number;
  onEvent?: (event: TaskEvent) => void;
}

/** Opens the queue as a further node does. It is closed after the test. */
export async function openNode({ nats, prefix, bounds = {}, ...rest }: NodeOptions): Promise<Queue> {
  const link = await openLink(nats, prefix);
  const { queue } = await openNatsQueue(link, { bounds: { ...roomy, ...bounds }, ...rest });
  afterTest(() => queue.close());
  return queue;
}
