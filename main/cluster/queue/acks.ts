import { oncePerTurn } from '../../tasks/once-per-turn.ts';
import { type NatsLink, REQUEST_TIMEOUT_MS } from '../nats-link.ts';

/**
 * Acks completed messages. The acks of one event loop turn are sent together. JetStream is asked to confirm only the
 * last of them, because a consumer's leader processes the acks of a connection in order. If the leader changes between
 * them, the last ack may be confirmed although earlier ones are lost. JetStream then redelivers their messages.
 */
export class Acks {
  readonly #link: Pick<NatsLink, 'connection'>;
  #replies: string[] = [];
  #confirmed = Promise.withResolvers<void>();
  readonly #sendSoon = oncePerTurn(() => {
    this.#confirmed.resolve(this.#send(this.#replies));
    this.#replies = [];
    this.#confirmed = Promise.withResolvers();
  });

  constructor(link: Pick<NatsLink, 'connection'>) {
    this.#link = link;
  }

  /** @throws {Error} if JetStream does not confirm the last ack of the turn in time; that of `reply` may still be processed */
  send(reply: string): Promise<void> {
    this.#replies.push(reply);
    this.#sendSoon();
    return this.#confirmed.promise;
  }

  async #send(replies: string[]): Promise<void> {
    const { connection } = this.#link;
    const last = replies.pop() as string;
    for (const reply of replies) connection.publish(reply, '+ACK');
    await connection.request(last, '+ACK', { timeout: REQUEST_TIMEOUT_MS });
  }
}
