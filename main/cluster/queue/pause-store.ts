import { Stream } from './stream.ts';

/** Stored state of the queue's pause. `at` is in milliseconds since the epoch. */
interface PauseRecord {
  paused: boolean;
  at: number;
}

/** Whether the queue is paused, for all nodes, in a stream with one message. */
export class PauseStore extends Stream {
  /** Number of finished writes of this node. */
  #writes = 0;

  /** @throws {Error} if JetStream does not confirm the write in time; it may still have been stored */
  async write(isPaused: boolean): Promise<void> {
    const record: PauseRecord = { paused: isPaused, at: Date.now() };
    await this.store('queue', JSON.stringify(record), {});
    this.#writes += 1;
  }

  /** Returns whether the queue is paused, or undefined if this node has written meanwhile, so that the result may be outdated. */
  async read(): Promise<boolean | undefined> {
    const writes = this.#writes;
    const message = await this.last('queue');
    if (writes !== this.#writes) return undefined;
    return message?.json<PauseRecord>().paused ?? false;
  }
}
