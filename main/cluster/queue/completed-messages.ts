/** A generation lasts for the ack wait of five seconds at 5,000 tasks per second. */
const MAX_PER_GENERATION = 25_000;

/** Task ids of the messages that this node completed last, by stream sequence. */
export class CompletedMessages {
  #newer = new Map<number, string>();
  #older = new Map<number, string>();

  add(streamSequence: number, id: string): void {
    this.#newer.set(streamSequence, id);
    if (this.#newer.size < MAX_PER_GENERATION) return;
    // Evicts a whole generation, because finding the oldest key of a Map that often loses its oldest takes 20 µs.
    this.#older = this.#newer;
    this.#newer = new Map();
  }

  idAt(streamSequence: number): string | undefined {
    return this.#newer.get(streamSequence) ?? this.#older.get(streamSequence);
  }
}
