import { Conflict, type RevisionedStore } from '../../../main/cluster/queue/revisioned-store.ts';

/** In-memory values with the compare-and-set semantics of a KV bucket. */
export class MemoryValues<Value> implements Pick<RevisionedStore<Value>, 'get' | 'put' | 'remove' | 'removeRevision'> {
  readonly #values = new Map<string, { value: Value; revision: number }>();
  #revision = 0;

  async get(name: string) {
    return this.#values.get(name);
  }

  async put(name: string, value: Value, expected?: number) {
    const current = this.#values.get(name)?.revision ?? 0;
    if (expected !== undefined && expected !== current) throw new Conflict(`${name} was changed meanwhile`);
    this.#values.set(name, { value, revision: ++this.#revision });
    return this.#revision;
  }

  async remove(name: string) {
    this.#values.delete(name);
  }

  async removeRevision(revision: number) {
    for (const [name, value] of this.#values) if (value.revision === revision) this.#values.delete(name);
  }
}
