/** State of an unfinished task, stored for all nodes as a note. A task that succeeds at the first attempt has no note. */
export interface DeliveryState {
  /** Stream sequence of the message that the note describes. A redrive stores the message again, with a higher one. */
  streamSequence: number;
  attempts: number;
  crashes: number;
  /** Reason of the last failure or snooze; empty before the first one. */
  reason: string;
  /** Time from which the message may be delivered again, in milliseconds since the epoch. */
  dueAt: number;
  /** JetStream's number of the message's last delivery that a node settled by a requeue, retry or snooze. */
  lastSettledDelivery: number;
  /** Whether an attempt has started since the last settled delivery. Recorded only if `suspect` is true. */
  running: boolean;
  /** Whether a process died while the message was in flight, and no attempt has ended since. */
  suspect: boolean;
}

/** State of a task for which no note is stored. */
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
 * Returns the state of a redelivered message, from the stored note of its earlier deliveries.
 *
 * JetStream counts deliveries. If the delivery before this one is not settled, its node has died or lost its connection. Whether
 * the task was running there is unknown, because recording each start would cost a round trip to the disks of all replicas. So
 * the task becomes a suspect, and no attempt is counted. The next attempt at a suspect is recorded before it starts. If that
 * attempt is not settled either, it counts as an attempt and a crash.
 *
 * @param deliveries JetStream's number of this delivery
 */
export function resolveDeliveryState(note: DeliveryState, deliveries: number): DeliveryState {
  if (note.lastSettledDelivery >= deliveries - 1) return { ...note, running: false };
  const { streamSequence, attempts, crashes, reason, running } = note;
  const charged = running ? 1 : 0;
  const why = running ? 'the process died while the task was running' : reason;
  const counted = { streamSequence, attempts: attempts + charged, crashes: crashes + charged, reason: why };
  return { ...counted, dueAt: 0, lastSettledDelivery: deliveries - 1, running: false, suspect: true };
}
