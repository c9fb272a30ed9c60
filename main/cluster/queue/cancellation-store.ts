import type { PubAck } from '@nats-io/jetstream';
import { Stream, token } from './stream.ts';

/** Maximum number of cancellations that are kept. They are read only if a message is delivered after its cancellation. */
export const MAX_CANCELLATIONS = 10_000;

/**
 * Cancellations of all nodes in one stream, one message each. The last sequence of the stream is the number of cancellations since
 * the stream was created, because a cancellation that is stored again is a duplicate.
 */
export class CancellationStore extends Stream {
  /** Stores a cancellation. @param taskSequence sequence number of the task's message in its stream */
  add(id: string, taskSequence: number): Promise<PubAck> {
    return this.store(token(id), JSON.stringify({ taskSequence }), { msgID: `${token(id)} ${taskSequence}` });
  }

  /** Whether a cancellation of the message is stored. */
  async has(id: string, taskSequence: number): Promise<boolean> {
    const message = await this.last(token(id));
    return message !== null && message.json<{ taskSequence: number }>().taskSequence === taskSequence;
  }
}
