import type { Consumer, Delivery, IdempotencyKey, Message, QueueDriver } from '../../main/tasks/queue/driver.ts';
import { until } from '../support/until.ts';

/**
 * A queue whose deliveries come over a network, for specs that expect them at once: whatever is done to it is over when
 * what it has set on its way to the consumer is there.
 */
export class AtOnce implements QueueDriver {
  readonly durable: boolean;
  readonly #queue: QueueDriver;
  /** Of the consumer, if there is one. */
  #prefetch = 0;

  constructor(queue: QueueDriver) {
    this.#queue = queue;
    this.durable = queue.durable;
  }

  publish(message: Message, key?: IdempotencyKey): Promise<string> {
    return this.#arrived(this.#queue.publish(message, key));
  }

  consume(prefetch: number, receive: (delivery: Delivery) => void): Consumer {
    const consumer = this.#queue.consume(prefetch, (delivery) =>
      receive({
        ...delivery,
        ack: () => this.#arrived(delivery.ack()),
        nack: (verdict) => this.#arrived(delivery.nack(verdict)),
        release: (suspect) => this.#arrived(delivery.release(suspect)),
      }),
    );
    this.#prefetch = prefetch;
    let stopped = false;
    const stop = () => {
      if (!stopped) this.#prefetch = 0;
      stopped = true;
      consumer.stop();
    };
    return { stop };
  }

  find(id: string) {
    return this.#queue.find(id);
  }

  counts() {
    return this.#queue.counts();
  }

  oldest() {
    return this.#queue.oldest();
  }

  newestDeadLetters(limit: number) {
    return this.#queue.newestDeadLetters(limit);
  }

  retryDeadLetter(id: string): Promise<boolean> {
    return this.#arrived(this.#queue.retryDeadLetter(id));
  }

  deleteDeadLetter(id: string): Promise<boolean> {
    return this.#queue.deleteDeadLetter(id);
  }

  close(): Promise<void> {
    this.#prefetch = 0;
    return this.#queue.close();
  }

  async #arrived<Value>(done: Promise<Value>): Promise<Value> {
    try {
      return await done;
    } finally {
      await until(() => {
        const { waiting, inFlight } = this.#queue.counts();
        return waiting === 0 || inFlight >= this.#prefetch;
      });
    }
  }
}
