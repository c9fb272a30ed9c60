import { JetStreamApiCodes, JetStreamApiError } from '@nats-io/jetstream';
import { Stream } from './stream.ts';

/**
 * Stream of named JSON values with compare-and-set. A value's revision is its stream sequence. Unlike a KV bucket, the
 * store keeps no delete markers, and evicts its oldest values when it is full.
 */
export class RevisionedStore<Value> extends Stream {
  async get(name: string): Promise<{ value: Value; revision: number } | undefined> {
    const message = await this.last(name);
    return message === null ? undefined : { value: message.json<Value>(), revision: message.seq };
  }

  /**
   * Writes a value by compare-and-set.
   *
   * @param expected the revision to replace, or 0 if the value must not exist yet
   * @returns the new revision, or undefined if the current revision is not `expected`
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
