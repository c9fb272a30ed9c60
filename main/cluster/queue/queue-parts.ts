import type { QueueBounds } from '../../tasks/queue/queue.ts';
import type { NatsLink } from '../nats-link.ts';
import type { NatsCounts } from './counts.ts';
import type { NatsEvents } from './events.ts';
import type { QueueStreams } from './queue-streams.ts';

/** Objects and settings that the parts of a node's queue share. */
export interface QueueParts extends QueueStreams {
  link: NatsLink;
  bounds: QueueBounds;
  /** Time without an in-progress ack after which JetStream redelivers a message. */
  ackWaitMs: number;
  /** Delay before this node starts a task that another node has asked to cancel. */
  holdMs: number;
  counts: NatsCounts;
  events: NatsEvents;
}
