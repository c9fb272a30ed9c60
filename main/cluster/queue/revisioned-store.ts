import { JetStreamApiCodes, JetStreamApiError } from '@nats-io/jetstream';
import { Stream } from './stream.ts';

/**
 * Named JSON values with revisions for compare-and-set, in a stream that keeps the last message of each subject. Unlike in a KV
 * bucket, a removed value leaves no marker, and a full stream evicts its oldest values. A value's revision is the sequence of its
 * message in the stream.
 */
export class RevisionedStore<Value> extends Stream {
  async get(name: string): Promise<{ value: Value; revision: number } | undefined> {
    const message = await this.last(name);
    return message === null ? undefined : { value: message.json<Value>(), revision: message.seq };
  }

  /**
   * Writes a value.
   *
   * @param expected the revision to replace, or 0 if the value must not exist yet
   * @returns the new revision, or undefined if the value does not have the expected revision
   */
  async put(name: string, value: Value, expected: number): Promise<number | undefined> {
    try {
      return (await this.store(name, JSON.stringify(value), { expect: { lastSubjectSequence: expected } })).seq;
    } catch (error) {
      if (error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamWrongLastSequence)
        return undefined;
      throw error;
    }
  }
}
