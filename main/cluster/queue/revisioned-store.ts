import { JetStreamApiCodes, JetStreamApiError, type JetStreamManager } from '@nats-io/jetstream';
import { streamName, subject } from './streams.ts';

/** JetStream's error code for deleting a message that was already deleted. */
const SEQUENCE_NOT_FOUND = 10043;
/** JetStream's error code for any failed deletion. */
const DELETE_FAILED = 10057;
/** Error texts of {@link DELETE_FAILED} for a sequence outside of the stream: before its first message, or past its last one. */
const OUTSIDE = ['no message found', 'stream store EOF'];

/** Thrown if a value has a revision other than the expected one. */
export class Conflict extends Error {
  override name = 'Conflict';
}

/**
 * JSON values by name, with revisions for compare-and-set, in a stream that keeps the last message of each subject. Unlike in a
 * key-value bucket, a removed value leaves no marker, and the stream's bound evicts the oldest values.
 */
export class RevisionedStore<Value> {
  readonly #manager: JetStreamManager;
  readonly #prefix: string;
  readonly #kind: 'notes' | 'keys';

  constructor(manager: JetStreamManager, prefix: string, kind: 'notes' | 'keys') {
    this.#manager = manager;
    this.#prefix = prefix;
    this.#kind = kind;
  }

  /** Reads a value from the leader of the stream's replicas, so that the writes of all nodes are visible. */
  async get(name: string): Promise<{ value: Value; revision: number } | undefined> {
    const message = await this.#manager.streams.getMessage(this.#stream, { last_by_subj: this.#subject(name) });
    return message === null ? undefined : { value: message.json<Value>(), revision: message.seq };
  }

  /**
   * Writes a value.
   *
   * @param expected the revision to replace, 0 for a value that must not exist; undefined replaces any revision
   * @returns the new revision
   * @throws {Conflict} if the value has another revision
   */
  async put(name: string, value: Value, expected?: number): Promise<number> {
    const expect = expected === undefined ? {} : { expect: { lastSubjectSequence: expected } };
    const payload = JSON.stringify(value);
    try {
      return (await this.#manager.jetstream().publish(this.#subject(name), payload, expect)).seq;
    } catch (error) {
      if (!(error instanceof JetStreamApiError) || error.code !== JetStreamApiCodes.StreamWrongLastSequence)
        throw error;
      throw new Conflict(`${name} was changed meanwhile`, { cause: error });
    }
  }

  async remove(name: string): Promise<void> {
    await this.#manager.streams.purge(this.#stream, { filter: this.#subject(name) });
  }

  /** Removes the value with that revision, unless the value has been replaced. */
  async removeRevision(revision: number): Promise<void> {
    await removeMessage(this.#manager, this.#stream, revision);
  }

  get #stream(): string {
    return streamName(this.#prefix, this.#kind);
  }

  #subject(name: string): string {
    return subject(this.#prefix, this.#kind, name);
  }
}

/** Deletes a message from a stream. @returns false if the message does not exist */
export async function removeMessage(manager: JetStreamManager, stream: string, seq: number): Promise<boolean> {
  try {
    return await manager.streams.deleteMessage(stream, seq, false);
  } catch (error) {
    if (error instanceof JetStreamApiError && isMissing(error)) return false;
    throw error;
  }
}

function isMissing({ code, message }: JetStreamApiError): boolean {
  if (code === DELETE_FAILED) return OUTSIDE.includes(message);
  return code === SEQUENCE_NOT_FOUND || code === JetStreamApiCodes.NoMessageFound;
}
