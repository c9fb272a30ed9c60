/**
 * What is known of a task that has not gone straight through. It is where every node finds it; a task that succeeds at
 * the first attempt has none.
 */
export interface Note {
  /** Stream sequence of its message. A lower one is left from before the task was redriven. */
  place: number;
  attempts: number;
  crashes: number;
  /** Why the last attempt failed. */
  reason: string;
  /** When it may be tried again, in milliseconds since the epoch. */
  dueAt: number;
  /** The last of JetStream's deliveries whose end is known: its node gave the message back, or said that it failed. */
  explained: number;
  /** Whether an attempt has begun since then. Only of suspects is that written down. */
  begun: boolean;
  /** Whether a process has died that held it, and it has not been tried since. */
  cut: boolean;
}

export const noNote: Note = {
  place: 0,
  attempts: 0,
  crashes: 0,
  reason: '',
  dueAt: 0,
  explained: 0,
  begun: false,
  cut: false,
};

/**
 * What a delivery has to go by, from the note that earlier ones left.
 *
 * JetStream counts deliveries. One that follows another whose end no note explains was taken away from its node, which
 * is dead or cannot be reached. Whether the task had begun there, or only waited in the dispatcher, is not known: to
 * write down each beginning would cost every task a round trip to the disk of all replicas. So nobody is blamed the first time;
 * the task is a suspect (`cut`): the dispatcher runs it alone, and its beginning is written down before. If that process
 * dies, too, it is certain that it died of this task, or with it, and the crash counts. A task that kills its process every time
 * does so once unnoticed and then `maxCrashes` times, and is given up; one that waited is run once alone.
 *
 * @param deliveries how often JetStream has delivered it, this time included
 */
export function standing(note: Note, deliveries: number): Note {
  if (note.explained >= deliveries - 1) return { ...note, begun: false };
  const { place, attempts, crashes, reason, begun } = note;
  const blame = begun ? 1 : 0;
  const why = begun ? 'the process died while it was worked on' : reason;
  const counted = { place, attempts: attempts + blame, crashes: crashes + blame, reason: why };
  return { ...counted, dueAt: 0, explained: deliveries - 1, begun: false, cut: true };
}
