/** Stored delivery state (a "note") of an unfinished task, for all nodes. A task that succeeds on its first attempt has none. */
export interface DeliveryState {
  /** Stream sequence of the message that the state belongs to. A redrive stores the message again, with a higher sequence. */
  streamSequence: number;
  attempts: number;
  crashes: number;
  /** Reason for the last failure or snooze, or empty if there has been none. */
  reason: string;
  /** Earliest time of the next delivery, in milliseconds since the epoch. */
  dueAt: number;
  /** JetStream's number for the last delivery of the message that a node settled by a requeue, retry or snooze. */
  lastSettledDelivery: number;
  /** Whether an attempt has started since the last settled delivery. Recorded only for a suspect. */
  running: boolean;
  /** Whether a process died while the message was in flight, and no attempt has ended since. */
  suspect: boolean;
}

/** Delivery state of a task for which none is stored. */
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
 * Returns the state of a redelivered message, based on the state stored for its earlier deliveries.
 *
 * JetStream counts deliveries. If the previous delivery was not settled, its node has died or lost its connection. Whether the task
 * was running on that node is unknown, because recording every start would cost a round trip to the disks of all replicas. So the
 * task becomes a suspect, and no attempt is counted. The next attempt at a suspect is recorded before it starts. If that attempt is
 * not settled either, it counts as an attempt and a crash.
 *
 * @param note the stored state
 * @param deliveries JetStream's number for this delivery
 */
export function resolveDeliveryState(note: DeliveryState, deliveries: number): DeliveryState {
  if (note.lastSettledDelivery >= deliveries - 1) return { ...note, running: false };
  const suspect = { ...note, dueAt: 0, lastSettledDelivery: deliveries - 1, running: false, suspect: true };
  if (!note.running) return suspect;
  const reason = 'the process died while the task was running';
  return { ...suspect, attempts: note.attempts + 1, crashes: note.crashes + 1, reason };
}
