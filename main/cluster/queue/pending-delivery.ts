import type { Msg, MsgHdrs } from '@nats-io/transport-node';
import { type DeliveryState, initialDeliveryState } from './delivery-state.ts';

/** Timeout of a request to JetStream. */
export const REQUEST_TIMEOUT_MS = 2000;

/** Message headers: the task id if the subject does not contain it, and original values of a redriven dead letter. */
export const HEADERS = { id: 'Task-Id', sequence: 'Task-Seq', acceptedAt: 'Task-Accepted-At' } as const;

/** A delivery of JetStream that this node has not settled. */
export interface PendingDelivery {
  id: string;
  body: string;
  bytes: number;
  /** Sequence of the message in the stream of tasks. */
  streamSequence: number;
  /** Sequence of the message when it was accepted; a redriven dead letter keeps it. */
  sequence: number;
  acceptedAt: number;
  /** Position in the order of arrival at this node. */
  turn: number;
  /** Reply subject of the message, to which its acks are sent. */
  reply: string;
  /** Number of deliveries of the message, including this one. */
  deliveries: number;
  /** State of the task, from its stored note if there is one. */
  note: DeliveryState;
  /** Revision of the last stored note that this node has seen; 0 without a note. */
  noteRevision: number;
  /** Whether a worker thread has started the task. */
  isRunning: boolean;
  /** Time of the last in-progress ack or, before the first one, of the arrival, in milliseconds since the epoch. */
  progressAt: number;
}

/**
 * Creates the pending delivery of an arrived message, with the state of a first delivery. The number of deliveries, the stream
 * sequence and the time of the message are parts of the ack subject:
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
    progressAt: Date.now(),
  };
}

/** Returns the task id of a message in the stream of tasks. */
export function taskIdOf(subject: string, headers: MsgHdrs | undefined): string {
  const id = headers?.get(HEADERS.id);
  return id ? decodeURIComponent(id) : subject.slice(subject.lastIndexOf('.') + 1);
}
