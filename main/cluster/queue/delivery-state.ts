/** State of a task that every node can read. A task that succeeds at the first attempt has none. */
export interface Note {
  /** Stream sequence of the message. A lower one is left from before the task was redriven. */
  streamSequence: number;
  attempts: number;
  crashes: number;
  /** Why the last attempt failed. */
  reason: string;
  /** When the message may be delivered again, in milliseconds since the epoch. */
  dueAt: number;
  /** JetStream's number of the last delivery whose node requeued the message, or reported a failed attempt. */
  lastSettledDelivery: number;
  /** Whether an attempt has started since then. Recorded for suspects only. */
  running: boolean;
  /** Whether the process of a delivery has died, and no attempt has ended since. */
  suspect: boolean;
}

export const noNote: Note = {
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
 * The state of a message that is delivered, from the note of its earlier deliveries.
 *
 * JetStream counts deliveries. If the delivery before this one is not settled, its node is dead or cannot be reached. Whether
 * the task was running there is not known, because recording each start would cost a round trip to the disks of all replicas. So
 * the task becomes a suspect, and no attempt is charged. The attempt at a suspect is recorded before it starts. If that attempt
 * is not settled either, it is charged as a crash.
 *
 * @param deliveries JetStream's number of this delivery
 */
export function resolveDeliveryState(note: Note, deliveries: number): Note {
  if (note.lastSettledDelivery >= deliveries - 1) return { ...note, running: false };
  const { streamSequence, attempts, crashes, reason, running } = note;
  const charged = running ? 1 : 0;
  const why = running ? 'the process died while the task was running' : reason;
  const counted = { streamSequence, attempts: attempts + charged, crashes: crashes + charged, reason: why };
  return { ...counted, dueAt: 0, lastSettledDelivery: deliveries - 1, running: false, suspect: true };
}
