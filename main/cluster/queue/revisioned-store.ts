import { JetStreamApiCodes, JetStreamApiError, type JetStreamClient, type JetStreamManager } from '@nats-io/jetstream';

/** Answered by JetStream for a message that is not there any more. */
const NO_SUCH_MESSAGE = 10057;

/** The value was changed by another meanwhile. */
export class Conflict extends Error {
  override name = 'Conflict';
}

/**
 * JSON values by name in a stream that keeps the last message of each subject. What is removed leaves nothing there, where
 * a key-value bucket keeps a marker for each; and the stream's own bound lets the oldest go.
 */
export class RevisionedStore<Value> {
  readonly #manager: JetStreamManager;
  readonly #jetstream: JetStreamClient;
  readonly #stream: string;
  readonly #subject: (name: string) => string;

  constructor(manager: JetStreamManager, stream: string, subject: (name: string) => string) {
    this.#manager = manager;
    this.#jetstream = manager.jetstream();
    this.#stream = stream;
    this.#subject = subject;
  }

  /** The value, as the leader of the stream knows it: what any node has put is seen. */
  async get(name: string): Promise<{ value: Value; revision: number } | undefined> {
    const message = await this.#manager.streams.getMessage(this.#stream, { last_by_subj: this.#subject(name) });
    return message === null ? undefined : { value: message.json<Value>(), revision: message.seq };
  }

  /**
   * @param expected the revision that is replaced, 0 where there is none; undefined replaces any
   * @returns the new revision
   * @throws {Conflict} when there is another one
   */
  async put(name: string, value: Value, expected?: number): Promise<number> {
    const expect = expected === undefined ? {} : { expect: { lastSubjectSequence: expected } };
    const payload = JSON.stringify(value);
    try {
      return (await this.#jetstream.publish(this.#subject(name), payload, expect)).seq;
    } catch (error) {
      if (!(error instanceof JetStreamApiError) || error.code !== JetStreamApiCodes.StreamWrongLastSequence)
        throw error;
      throw new Conflict(`${name} was changed meanwhile`, { cause: error });
    }
  }

  async remove(name: string): Promise<void> {
    await this.#manager.streams.purge(this.#stream, { filter: this.#subject(name) });
  }

  /** Removes a value unless it was replaced. */
  async removeRevision(revision: number): Promise<void> {
    await removeMessage(this.#manager, this.#stream, revision);
  }
}

/** @returns whether it was there */
export async function removeMessage(manager: JetStreamManager, stream: string, seq: number): Promise<boolean> {
  try {
    return await manager.streams.deleteMessage(stream, seq, false);
  } catch (error) {
    const codes: number[] = [NO_SUCH_MESSAGE, JetStreamApiCodes.NoMessageFound];
    if (error instanceof JetStreamApiError && codes.includes(error.code)) return false;
    throw error;
  }
}
