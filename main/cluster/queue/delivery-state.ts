import { type AttemptHistory, PROCESS_DIED, withAttempt } from '../../../db/attempt-history.ts';

/**
 * Stored delivery state ("note") of an unfinished task, shared by all nodes. Not stored if the first attempt succeeds.
 */
export interface DeliveryState {
  /** Stream sequence of the task's message. A redrive stores the message again with a higher sequence. */
  streamSequence: number;
  attempts: number;
  crashes: number;
  /** Failed attempts. Version 0.1.0 does not store them. */
  history?: AttemptHistory;
  /** Reason for the last failure or snooze. Empty before the first failure or snooze. */
  reason: string;
  /** Earliest time of the next delivery, in milliseconds since the epoch. */
  dueAt: number;
  /** Number of the last delivery that was settled by a requeue, retry or snooze, as counted by JetStream. */
  lastSettledDelivery: number;
  /** Whether an attempt has started since the last settled delivery. Always false unless `suspect` is true. */
  running: boolean;
  /** Whether a process died while the message was in flight. Cleared when an attempt ends. */
  suspect: boolean;
}

/** Initial delivery state, used if no state is stored for a task. */
export const initialDeliveryState: DeliveryState = {
  streamSequence: 0,
  attempts: 0,
  crashes: 0,
  reason: '',
  dueAt: 0,
  lastSettledDelivery: 0,
  running: false,
  suspect: false,
};

/**
 * Returns the delivery state of a redelivered message.
 *
 * If the previous delivery was not settled, its node died or lost its connection, so the message becomes a suspect. If
 * the message already was a suspect and its attempt had started, the attempt counts as a crash.
 *
 * @param note the stored state
 * @param deliveries number of this delivery, as counted by JetStream
 */
export function resolveDeliveryState(note: DeliveryState, deliveries: number): DeliveryState {
  if (note.lastSettledDelivery >= deliveries - 1) return { ...note, running: false };
  const suspect = { ...note, dueAt: 0, lastSettledDelivery: deliveries - 1, running: false, suspect: true };
  if (!note.running) return suspect;
  const history = withAttempt(note.history ?? [], Date.now(), PROCESS_DIED);
  return { ...suspect, attempts: note.attempts + 1, crashes: note.crashes + 1, reason: PROCESS_DIED, history };
}
