export abstract class Pausable {
  #isPaused: boolean;
  readonly #listeners = new Set<(isPaused: boolean) => void>();

  constructor(isPaused = false) {
    this.#isPaused = isPaused;
  }

  get paused(): boolean {
    return this.#isPaused;
  }

  async pause(): Promise<void> {
    await this.storePause(true);
    this.setPaused(true);
  }

  async resume(): Promise<void> {
    await this.storePause(false);
    this.setPaused(false);
  }

  onPauseChange(listener: (isPaused: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Stores that the queue is paused or resumed. Called before the change takes effect. */
  protected abstract storePause(isPaused: boolean): Promise<void>;

  /** Returns whether the state has changed. If it has, calls the listeners. */
  protected setPaused(isPaused: boolean): boolean {
    if (isPaused === this.#isPaused) return false;
    this.#isPaused = isPaused;
    for (const listener of this.#listeners) listener(isPaused);
    return true;
  }
}
