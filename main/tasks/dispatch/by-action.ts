/** Maximum number of actions that have a value of their own. */
const MAX_ACTIONS = 100;
const OTHERS = 'other';

/** Values by action. All unknown actions share one, because clients choose the names and each is a label of metrics. */
export class ByAction<Value> implements Iterable<[action: string, Value]> {
  readonly #values = new Map<string, Value>();
  readonly #others: Value;
  readonly #create: () => Value;

  constructor(actions: Iterable<string>, create: () => Value) {
    this.#create = create;
    this.#others = create();
    this.add(actions);
  }

  /** Adds actions of a changed module. The values of its former actions stay, because metrics must not be reset. */
  add(actions: Iterable<string>): void {
    for (const action of actions) {
      const isNew = action !== OTHERS && !this.#values.has(action);
      if (isNew && this.#values.size < MAX_ACTIONS) this.#values.set(action, this.#create());
    }
  }

  of(action = OTHERS): Value {
    return this.#values.get(action) ?? this.#others;
  }

  *[Symbol.iterator](): Generator<[action: string, Value]> {
    yield* this.#values;
    yield [OTHERS, this.#others];
  }
}
