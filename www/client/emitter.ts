/** Listeners by the names of events. `Events` maps a name to what its listeners get. */
export class Emitter<Events> {
  readonly #listeners = new Map<keyof Events, Set<(value: never) => void>>();
  readonly #onChange: () => void;

  /** @param onChange called after each listener that was added or removed */
  constructor(onChange: () => void = () => {}) {
    this.#onChange = onChange;
  }

  /** @returns a function that removes the listener */
  on<Name extends keyof Events>(name: Name, listener: (value: Events[Name]) => void): () => void {
    const own = (value: Events[Name]) => listener(value);
    this.#listeners.set(name, (this.#listeners.get(name) ?? new Set()).add(own));
    this.#onChange();
    return () => {
      if (this.#listeners.get(name)?.delete(own)) this.#onChange();
    };
  }

  hasListeners(name: keyof Events): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0;
  }

  /** Calls the listeners. An error of one is reported as uncaught, and the others are called nevertheless. */
  emit<Name extends keyof Events>(name: Name, value: Events[Name]): void {
    for (const listener of [...(this.#listeners.get(name) ?? [])] as ((value: Events[Name]) => void)[]) {
      try {
        listener(value);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
