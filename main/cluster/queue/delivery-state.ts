import { type AttemptHistory, PROCESS_DIED, withAttempt } from '../../../db/attempt-history.ts';

/** Stored delivery state of an unfinished task, shared by all nodes. Not stored if the first attempt succeeds. */
export interface DeliveryState {
  /** Stream sequence of the task's message. A redrive stores the message with a higher sequence. */
  streamSequence: number;
  attempts: number;
  crashes: number;
  /** Not stored by version 0.1.0. */
  history?: AttemptHistory;
  /** Reason for the last failure or snooze; empty if there was none. */
  reason: string;
  /** Earliest time of the next delivery, in milliseconds since the epoch. */
  dueAt: number;
  /** Number of the last delivery that was requeued, retried or snoozed, as counted by JetStream. */
  lastSettledDelivery: number;
  /** Whether a suspect's attempt has started but not ended. Always false if `suspect` is false. */
  running: boolean;
  /** Whether a process died while the message was in flight. Cleared when an attempt ends. */
  suspect: boolean;
}

/** Used if no state is stored for a task. */
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
 * Returns the delivery state of a redelivered message. If the previous delivery was not settled, the message becomes a
 * suspect. If a suspect's attempt had started, the attempt counts as a crash.
 */
export function resolveDeliveryState(note: DeliveryState, deliveries: number): DeliveryState {
  if (note.lastSettledDelivery >= deliveries - 1) return { ...note, running: false };
  const suspect = { ...note, dueAt: 0, lastSettledDelivery: deliveries - 1, running: false, suspect: true };
  if (!note.running) return suspect;
  const history = withAttempt(note.history ?? [], Date.now(), PROCESS_DIED);
  return { ...suspect, attempts: note.attempts + 1, crashes: note.crashes + 1, reason: PROCESS_DIED, history };
}
