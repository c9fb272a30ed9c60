import { Stream } from './stream.ts';

/** `at` is in milliseconds since the epoch. */
interface PauseRecord {
  paused: boolean;
  at: number;
}

/** Stream with one message, which says whether the queue is paused. */
export class PauseStore extends Stream {
  #writes = 0;

  /** @throws {Error} if JetStream does not confirm the write in time; the write may still be stored */
  async write(isPaused: boolean): Promise<void> {
    const record: PauseRecord = { paused: isPaused, at: Date.now() };
    await this.store('queue', JSON.stringify(record), {});
    this.#writes += 1;
  }

  /** Returns whether the queue is paused, or undefined if this node paused or resumed the queue during the read. */
  async read(): Promise<boolean | undefined> {
    const writes = this.#writes;
    const message = await this.last('queue');
    if (writes !== this.#writes) return undefined;
    return message?.json<PauseRecord>().paused ?? false;
  }
}
