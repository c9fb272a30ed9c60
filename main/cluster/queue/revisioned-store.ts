import { DeliverPolicy, JetStreamApiCodes, JetStreamApiError } from '@nats-io/jetstream';
import { Stream } from './stream.ts';

const LISTING_WAIT_MS = 2000;

/** Named JSON values with compare-and-set. Unlike a KV bucket, keeps no delete markers and evicts old values. */
export class RevisionedStore<Value> extends Stream {
  async get(name: string): Promise<{ value: Value; revision: number } | undefined> {
    const message = await this.last(name);
    return message === null ? undefined : { value: message.json<Value>(), revision: message.seq };
  }

  /** Returns the `max` newest values by name. */
  async newest(max: number): Promise<Map<string, Value>> {
    const { messages, first_seq: first, last_seq: last } = await this.state();
    if (messages === 0) return new Map();
    // Replaced and removed values leave gaps in the sequences, so the range is doubled until it holds `max` values.
    for (let range = max; ; range *= 2) {
      const from = messages <= max ? first : Math.max(first, last + 1 - range);
      const values = await this.#readFrom(from, max, from > first);
      if (values !== undefined) return values;
    }
  }

  // Returns undefined if there are fewer than `max` values from sequence `from` on, although older values exist.
  async #readFrom(from: number, max: number, hasOlder: boolean): Promise<Map<string, Value> | undefined> {
    const values = new Map<string, Value>();
    const consumer = await this.link.jetstream.consumers.get(this.name, {
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: from,
    });
    try {
      const { num_pending: pending } = await consumer.info();
      if (hasOlder && pending < max) return undefined;
      if (pending === 0) return values;
      for await (const message of await consumer.fetch({ max_messages: pending, expires: LISTING_WAIT_MS })) {
        values.set(message.subject.slice(message.subject.lastIndexOf('.') + 1), message.json<Value>());
        const [oldest] = values.keys();
        if (values.size > max) values.delete(oldest as string);
        if (message.info.pending === 0) break;
      }
      return values;
    } finally {
      // The server would keep the ephemeral consumer for minutes.
      await consumer.delete().catch(() => {});
    }
  }

  /**
   * @param expected revision to replace; 0 if the value must not exist yet
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
