import type { PubAck } from '@nats-io/jetstream';
import { Stream, token } from './stream.ts';

export const MAX_CANCELLATIONS = 10_000;

/** Stream of cancellations. JetStream ignores duplicates, so the last sequence is the number of cancellations. */
export class CancellationStore extends Stream {
  /** @param taskSequence sequence of the cancelled message in the task stream */
  add(id: string, taskSequence: number): Promise<PubAck> {
    return this.store(token(id), JSON.stringify({ taskSequence }), { msgID: `${token(id)} ${taskSequence}` });
  }

  async has(id: string, taskSequence: number): Promise<boolean> {
    const message = await this.last(token(id));
    return message !== null && message.json<{ taskSequence: number }>().taskSequence === taskSequence;
  }
}
