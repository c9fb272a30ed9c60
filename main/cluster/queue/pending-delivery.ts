import type { Msg, MsgHdrs } from '@nats-io/transport-node';
import { actionStart } from '../../../workers/parse-submission.ts';
import type { Delivery, TaskProgress, UnfinishedState } from '../../tasks/queue/queue.ts';
import { type DeliveryState, initialDeliveryState } from './delivery-state.ts';

/**
 * Message headers. By `messageId`, JetStream detects duplicates. `id` is set if the subject lacks the task id.
 * `sequence` and `acceptedAt` are set by a redrive.
 */
export const HEADERS = {
  messageId: 'Nats-Msg-Id',
  id: 'Task-Id',
  sequence: 'Task-Seq',
  acceptedAt: 'Task-Accepted-At',
} as const;

/** JetStream delivery that this node has not settled. */
export interface PendingDelivery {
  id: string;
  body: string;
  /** First characters of the action, or undefined if the message has no action. */
  action: string | undefined;
  bytes: number;
  /** Message's sequence in the task stream. */
  streamSequence: number;
  /** Sequence of the message when it was first accepted. A redrive keeps this sequence. */
  sequence: number;
  acceptedAt: number;
  /** Number of the delivery in the order of arrival on this node. */
  turn: number;
  /** Subject to which acks are sent. */
  reply: string;
  /** Number of deliveries of the message, including this delivery. */
  deliveries: number;
  /** Stored delivery state of the task, or `initialDeliveryState`. */
  note: DeliveryState;
  /** Latest known revision of the stored delivery state, or 0 if the state is not stored. */
  noteRevision: number;
  /** Set while the dispatcher has taken the delivery but not settled it. */
  delivery?: Delivery | undefined;
  isRunning: boolean;
  /** Start of the attempt in milliseconds since the epoch. */
  startedAt?: number | undefined;
  progress?: TaskProgress | undefined;
  /** Whether the task was cancelled before its start. The dispatcher must not take a cancelled task. */
  isCancelled: boolean;
  /** Time of the last in-progress ack or, before the first, of the delivery, in milliseconds since the epoch. */
  progressAt: number;
}

/**
 * Reads the delivery count, the stream sequence and the timestamp from the reply subject:
 * `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<deliveries>.<stream sequence>.<consumer sequence>.<nanoseconds>.<pending>[.<random>]`
 */
export function pendingDelivery({ data, headers, subject, reply = '' }: Msg, turn: number): PendingDelivery {
  const tokens = reply.split('.');
  const [deliveries = 0, streamSequence = 0, , nanos = 0] = tokens.slice(tokens.length === 9 ? 4 : 6).map(Number);
  const body = textOf(data);
  return {
    id: taskIdOf(subject, headers),
    body,
    action: actionStart(body),
    bytes: data.byteLength,
    streamSequence,
    sequence: Number(headers?.get(HEADERS.sequence) || streamSequence),
    acceptedAt: acceptedAtOf(headers, nanos / 1_000_000),
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

/** Returns when a message was accepted. Times are in milliseconds since the epoch. */
export function acceptedAtOf(headers: MsgHdrs | undefined, storedAt: number): number {
  return Number(headers?.get(HEADERS.acceptedAt) || Math.floor(storedAt));
}

export function textOf(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString();
}

export function inFlightState({ isRunning, note, startedAt, progress }: PendingDelivery): UnfinishedState {
  if (!isRunning) return { state: 'queued' };
  return {
    state: 'running',
    attempt: note.attempts + 1,
    ...(startedAt && { startedAt }),
    ...(progress && { progress }),
  };
}

/** Returns the task id from the message's header or, if the header is not set, from the subject. */
export function taskIdOf(subject: string, headers: MsgHdrs | undefined): string {
  const id = headers?.get(HEADERS.id);
  return id ? decodeURIComponent(id) : subject.slice(subject.lastIndexOf('.') + 1);
}
