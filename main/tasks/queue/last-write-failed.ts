/** Thrown when a journal is closed and its last changes could not be written. */
export class LastWriteFailed extends Error {
  override name = 'LastWriteFailed';
  /** Sequence numbers of the messages that the journal's file contains. */
  readonly stored: ReadonlySet<number>;

  constructor(reason: string, stored: ReadonlySet<number>) {
    super(reason);
    this.stored = stored;
  }
}
