import type { Msg, MsgHdrs } from '@nats-io/transport-node';
import { actionStart } from '../../../workers/parse-submission.ts';
import type { Delivery, TaskProgress, UnfinishedState } from '../../tasks/queue/queue.ts';
import { type DeliveryState, initialDeliveryState } from './delivery-state.ts';

/**
 * Message header names. `id` is set if the subject lacks the task id. `sequence` and `acceptedAt` are set on redriven
 * messages.
 */
export const HEADERS = { id: 'Task-Id', sequence: 'Task-Seq', acceptedAt: 'Task-Accepted-At' } as const;

/** A JetStream delivery that this node has not settled. */
export interface PendingDelivery {
  id: string;
  body: string;
  /** First characters of the action, for events. Undefined if the message has none. */
  action: string | undefined;
  bytes: number;
  /** Sequence of the message in the task stream. */
  streamSequence: number;
  /** Sequence of the message when it was first accepted. A redrive keeps this sequence. */
  sequence: number;
  acceptedAt: number;
  /** Number of this delivery in the order of arrival on this node. */
  turn: number;
  /** Reply subject of the message. Acks are sent to this subject. */
  reply: string;
  /** Number of deliveries of the message so far, including this one. */
  deliveries: number;
  /** Delivery state of the task: the stored state if it exists, otherwise `initialDeliveryState`. */
  note: DeliveryState;
  /** Latest known revision of the stored delivery state. 0 if the state is not stored. */
  noteRevision: number;
  /** Delivery that the dispatcher has taken but not settled. */
  delivery?: Delivery | undefined;
  /** Whether a worker thread has started the task. */
  isRunning: boolean;
  /** Start of the attempt in milliseconds since the epoch. Undefined if no worker thread has started the task. */
  startedAt?: number | undefined;
  /** Last progress reported by the handler in this attempt. */
  progress?: TaskProgress | undefined;
  /** Whether the task was cancelled before its start. The dispatcher must not take a cancelled task. */
  isCancelled: boolean;
  /** Time of the last in-progress ack in milliseconds since the epoch. Initially the arrival time. */
  progressAt: number;
}

/**
 * Creates a pending delivery from a JetStream message, with the initial delivery state. The delivery count, the stream
 * sequence and the timestamp are read from the reply subject:
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

/** Returns when a message of the task stream was accepted. Times, such as `storedAt`, are milliseconds since the epoch. */
export function acceptedAtOf(headers: MsgHdrs | undefined, storedAt: number): number {
  return Number(headers?.get(HEADERS.acceptedAt) || Math.floor(storedAt));
}

/** Returns the data of a message as text. */
export function textOf(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString();
}

/** Returns the state of a delivery that is in flight. */
export function inFlightState({ isRunning, note, startedAt, progress }: PendingDelivery): UnfinishedState {
  if (!isRunning) return { state: 'queued' };
  return {
    state: 'running',
    attempt: note.attempts + 1,
    ...(startedAt && { startedAt }),
    ...(progress && { progress }),
  };
}

/** Returns the task id from a message's header, or from its subject if the header is not set. */
export function taskIdOf(subject: string, headers: MsgHdrs | undefined): string {
  const id = headers?.get(HEADERS.id);
  return id ? decodeURIComponent(id) : subject.slice(subject.lastIndexOf('.') + 1);
}
