import { setTimeout as delay } from 'node:timers/promises';
import {
  type DeadLetterFilter,
  type DeadLetterReasons,
  type DeadLetterSelection,
  type ListedDeadLetter,
  mostFrequent,
  type ReasonCount,
  UnknownDeadLetter,
} from '../../tasks/queue/dead-letter-operations.ts';
import { concurrently } from './concurrently.ts';
import type { DeadLetterStore, LetterHead } from './dead-letter-store.ts';
import { digest } from './stream.ts';

const MAX_READS = 16;

/** Minimum time between two counts of dead letters by reason, because a count reads all dead letters. */
const COUNT_INTERVAL_MS = 1000;
/** Maximum number of concurrent listings that filter by reason, because each may read all dead letters. */
const MAX_FILTERED = 2;

/** Lists and counts the dead letters of all nodes, mostly from their headers. */
export class DeadLetterListing {
  readonly #letters: DeadLetterStore;
  /** Last count of dead letters by reason, with the state of their stream at the time of the count. */
  #reasons: { state: string; reasons: DeadLetterReasons } | undefined;
  #counting: Promise<DeadLetterReasons> | undefined;
  #countedAt = Number.NEGATIVE_INFINITY;
  readonly #filtered = new Set<Promise<unknown>>();

  constructor(letters: DeadLetterStore) {
    this.#letters = letters;
  }

  /** Returns up to `limit` dead letters without their bodies, newest first. @throws {UnknownDeadLetter} */
  async newest(limit: number, filter: DeadLetterFilter): Promise<ListedDeadLetter[]> {
    if (filter.reason === undefined) return this.#newest(limit, filter);
    while (this.#filtered.size >= MAX_FILTERED) await Promise.race(this.#filtered).catch(() => {});
    const listing = this.#newest(limit, filter);
    this.#filtered.add(listing);
    return listing.finally(() => this.#filtered.delete(listing));
  }

  async #newest(limit: number, { before, reason }: DeadLetterFilter): Promise<ListedDeadLetter[]> {
    const { messages, first_seq: first, last_seq } = await this.#letters.state();
    const last = before === undefined ? last_seq : (await this.#sequenceOf(before)) - 1;
    if (messages === 0 || last < first) return [];
    // Removed dead letters leave gaps in the sequences, so the range is doubled until it holds `limit` dead letters.
    for (let range = limit; ; range *= 2) {
      const from = Math.max(first, last + 1 - range);
      const heads = await this.#withReason(await this.#letters.heads(from, last), reason);
      if (heads.length < limit && from > first) continue;
      return heads
        .slice(-limit)
        .reverse()
        .map(({ bytes, streamSequence }) => ({ bytes, read: () => this.#letters.letterAt(streamSequence) }));
    }
  }

  /** Returns the selected dead letters, oldest first. */
  async select(selection: DeadLetterSelection): Promise<LetterHead[]> {
    const heads = await this.#all();
    if ('all' in selection) return heads;
    if ('reason' in selection) return this.#withReason(heads, selection.reason);
    const ids = new Set(selection.ids);
    return heads.filter(({ id }) => ids.has(id));
  }

  /** Counts the dead letters by their reasons. Concurrent calls share one count. */
  reasons(): Promise<DeadLetterReasons> {
    this.#counting ??= this.#freshReasons().finally(() => {
      this.#counting = undefined;
    });
    return this.#counting;
  }

  /** Counts dead letters by reason only if they have changed, and at most once per {@link COUNT_INTERVAL_MS}. */
  async #freshReasons(): Promise<DeadLetterReasons> {
    const known = this.#reasons;
    if (known !== undefined && known.state === (await this.#state())) return known.reasons;
    const waitMs = this.#countedAt + COUNT_INTERVAL_MS - performance.now();
    if (waitMs > 0) await delay(waitMs);
    const state = await this.#state();
    const reasons = await this.#countReasons();
    this.#reasons = { state, reasons };
    this.#countedAt = performance.now();
    return reasons;
  }

  /** Returns a text that changes when a dead letter is stored or removed. */
  async #state(): Promise<string> {
    const { messages, first_seq, last_seq } = await this.#letters.state();
    return `${first_seq} ${last_seq} ${messages}`;
  }

  async #countReasons(): Promise<DeadLetterReasons> {
    const counts = new Map<string | undefined, ReasonCount & { streamSequence: number }>();
    for (const { reasonDigest = '', streamSequence, permanent } of await this.#withDigests(await this.#all())) {
      const known = counts.get(reasonDigest);
      if (known === undefined) counts.set(reasonDigest, { reason: reasonDigest, count: 1, permanent, streamSequence });
      else {
        known.count += 1;
        known.permanent &&= permanent;
        known.streamSequence = streamSequence;
      }
    }
    const { reasons, total } = mostFrequent([...counts.values()]);
    const texts = new Map<string, string>();
    await concurrently(reasons, MAX_READS, async ({ reason }) => {
      const counted = reason === null ? undefined : counts.get(reason);
      const letter = counted && (await this.#letters.letterAt(counted.streamSequence));
      if (reason !== null && letter !== undefined) texts.set(reason, letter.reason);
    });
    // A dead letter removed during the count cannot be read, so its reason is omitted until the next count.
    const readable = reasons.filter(({ reason }) => reason === null || texts.has(reason));
    return {
      reasons: readable.map(({ reason, count, permanent }) => ({
        reason: texts.get(reason ?? '') ?? null,
        count,
        permanent,
      })),
      total,
    };
  }

  async #all(): Promise<LetterHead[]> {
    const { messages, first_seq, last_seq } = await this.#letters.state();
    return messages === 0 ? [] : this.#letters.heads(first_seq, last_seq);
  }

  async #sequenceOf(id: string): Promise<number> {
    const stored = await this.#letters.get(id);
    if (stored === undefined) throw new UnknownDeadLetter();
    return stored.streamSequence;
  }

  async #withReason(heads: LetterHead[], reason: string | undefined): Promise<LetterHead[]> {
    if (reason === undefined) return heads;
    const wanted = digest(reason);
    return (await this.#withDigests(heads)).filter(({ reasonDigest }) => reasonDigest === wanted);
  }

  async #withDigests(heads: LetterHead[]): Promise<LetterHead[]> {
    const digests = new Map<number, string>();
    const unknown = heads.filter(({ reasonDigest }) => reasonDigest === undefined);
    await concurrently(unknown, MAX_READS, async ({ streamSequence }) => {
      const letter = await this.#letters.letterAt(streamSequence);
      if (letter !== undefined) digests.set(streamSequence, digest(letter.reason));
    });
    const complete = heads.map((head) => ({
      ...head,
      reasonDigest: head.reasonDigest ?? digests.get(head.streamSequence),
    }));
    return complete.filter(({ reasonDigest }) => reasonDigest !== undefined);
  }
}
