/** Maximum number of actions that have a value of their own. */
const MAX_ACTIONS = 100;
const OTHERS = 'other';

/** Values by action. All unknown actions share one, because clients choose the names and each is a label of metrics. */
export class ByAction<Value> implements Iterable<[action: string, Value]> {
  readonly #values: ReadonlyMap<string, Value>;

  constructor(actions: readonly string[], create: () => Value) {
    const names = [...new Set(actions)].slice(0, MAX_ACTIONS);
    this.#values = new Map([...names, OTHERS].map((name) => [name, create()]));
  }

  of(action = OTHERS): Value {
    return this.#values.get(action) ?? (this.#values.get(OTHERS) as Value);
  }

  [Symbol.iterator](): IterableIterator<[action: string, Value]> {
    return this.#values.entries();
  }
}
