import type { Msg, MsgHdrs } from '@nats-io/transport-node';
import type { Delivery, TaskProgress } from '../../tasks/queue/queue.ts';
import { type DeliveryState, initialDeliveryState } from './delivery-state.ts';

/** Message headers: the task id, if the subject does not contain it, and the original values of a redriven dead letter. */
export const HEADERS = { id: 'Task-Id', sequence: 'Task-Seq', acceptedAt: 'Task-Accepted-At' } as const;

/** A JetStream delivery that this node has not settled. */
export interface PendingDelivery {
  id: string;
  body: string;
  bytes: number;
  /** Sequence of the message in the stream of tasks. */
  streamSequence: number;
  /** Sequence of the message when it was first accepted. A redrive keeps this sequence. */
  sequence: number;
  acceptedAt: number;
  /** Position in the order of arrival at this node. */
  turn: number;
  /** Reply subject of the message, to which its acks are sent. */
  reply: string;
  /** Number of deliveries of the message so far, including this one. */
  deliveries: number;
  /** Delivery state of the task: the one stored in JetStream, or the initial one if none is stored. */
  note: DeliveryState;
  /** Latest revision of the stored delivery state that this node knows, or 0 if none is stored. */
  noteRevision: number;
  /** The delivery that the dispatcher has taken and not settled. */
  delivery?: Delivery | undefined;
  /** Whether a worker thread has started the task. */
  isRunning: boolean;
  /** Last progress that the handler has reported in this attempt. */
  progress?: TaskProgress | undefined;
  /** Whether the task was cancelled before its start, so that the dispatcher must not take it. */
  isCancelled: boolean;
  /** Time of the last in-progress ack, or of the arrival if none was sent yet, in milliseconds since the epoch. */
  progressAt: number;
}

/**
 * Creates the pending delivery of an arrived message, with the state of a first delivery. The number of deliveries, the stream
 * sequence and the time of the message are parts of its reply subject:
 * `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<deliveries>.<stream sequence>.<consumer sequence>.<nanoseconds>.<pending>[.<random>]`
 */
export function pendingDelivery({ data, headers, subject, reply = '' }: Msg, turn: number): PendingDelivery {
  const tokens = reply.split('.');
  const [deliveries = 0, streamSequence = 0, , nanos = 0] = tokens.slice(tokens.length === 9 ? 4 : 6).map(Number);
  return {
    id: taskIdOf(subject, headers),
    body: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString(),
    bytes: data.byteLength,
    streamSequence,
    sequence: Number(headers?.get(HEADERS.sequence) || streamSequence),
    acceptedAt: Number(headers?.get(HEADERS.acceptedAt) || Math.floor(nanos / 1_000_000)),
    turn,
    reply,
    deliveries,
    note: initialDeliveryState,
    noteRevision: 0,
    isRunning: false,
    isCancelled: false,
    progressAt: Date.now(),
  };
}

/** Returns the task id of a message in the stream of tasks. */
export function taskIdOf(subject: string, headers: MsgHdrs | undefined): string {
  const id = headers?.get(HEADERS.id);
  return id ? decodeURIComponent(id) : subject.slice(subject.lastIndexOf('.') + 1);
}
