import type { PubAck } from '@nats-io/jetstream';
import { Stream, token } from './stream.ts';

/** Maximum number of stored cancellations. The oldest are evicted first. */
export const MAX_CANCELLATIONS = 10_000;

/**
 * Stream of the cancellations of all nodes. JetStream ignores duplicates, so the last sequence in the stream is the
 * total number of cancellations.
 */
export class CancellationStore extends Stream {
  /** Stores a cancellation. @param taskSequence sequence of the cancelled message in the task stream */
  add(id: string, taskSequence: number): Promise<PubAck> {
    return this.store(token(id), JSON.stringify({ taskSequence }), { msgID: `${token(id)} ${taskSequence}` });
  }

  /** Whether a cancellation of the message is stored. */
  async has(id: string, taskSequence: number): Promise<boolean> {
    const message = await this.last(token(id));
    return message !== null && message.json<{ taskSequence: number }>().taskSequence === taskSequence;
  }
}
