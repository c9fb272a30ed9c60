import type { Actor, LifecycleMessage } from '../../main/ticker/pid-registry.ts';
import { Condition } from './until.ts';

export class Recorder implements Actor {
  readonly received: LifecycleMessage[] = [];
  #asked = 0;
  readonly #arrived = new Condition();

  receive(message: LifecycleMessage): void {
    this.received.push(message);
    this.#arrived.changed();
  }

  next(): Promise<LifecycleMessage> {
    return this.#arrived.found(() => (this.#asked < this.received.length ? this.received[this.#asked++] : undefined));
  }
}
