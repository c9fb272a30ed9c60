import type { Actor, LifecycleMessage } from '../../main/ticker/pid-registry.ts';

export class Recorder implements Actor {
  readonly received: LifecycleMessage[] = [];
  #asked = 0;
  #arrived = Promise.withResolvers<void>();

  receive(message: LifecycleMessage): void {
    this.received.push(message);
    this.#arrived.resolve();
    this.#arrived = Promise.withResolvers();
  }

  async next(): Promise<LifecycleMessage> {
    while (this.#asked >= this.received.length) await this.#arrived.promise;
    return this.received[this.#asked++] as LifecycleMessage;
  }
}
