import type { RevisionedStore } from '../../../main/cluster/queue/revisioned-store.ts';

/** In-memory values with the compare-and-set semantics of a KV bucket. */
export class MemoryValues<Value> implements Pick<RevisionedStore<Value>, 'get' | 'put' | 'purge' | 'remove'> {
  readonly #values = new Map<string, { value: Value; revision: number }>();
  #revision = 0;

  async get(name: string) {
    return this.#values.get(name);
  }

  async put(name: string, value: Value, expected: number) {
    const current = this.#values.get(name)?.revision ?? 0;
    if (expected !== current) return undefined;
    this.#values.set(name, { value, revision: ++this.#revision });
    return this.#revision;
  }

  async purge(name: string) {
    this.#values.delete(name);
  }

  async remove(revision: number) {
    const found = [...this.#values].find(([, value]) => value.revision === revision);
    return found !== undefined && this.#values.delete(found[0]);
  }
}
