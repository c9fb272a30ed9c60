import { DeliverPolicy, type PubAck, type StoredMsg } from '@nats-io/jetstream';
import type { DeadLetter, ListedDeadLetter } from '../../tasks/queue/queue.ts';
import { Stream, token } from './stream.ts';

/** Timeout for fetching a batch of dead letters. */
const LISTING_WAIT_MS = 2000;
/** Maximum length of a stored failure reason. Longer reasons are truncated, because NATS limits the message size. */
const MAX_REASON_LENGTH = 4096;

/** A dead letter with its stream sequences. */
export interface StoredLetter {
  letter: DeadLetter;
  /** Sequence of the dead letter in the dead-letter stream. */
  streamSequence: number;
  /** Sequence of the original message in the task stream. */
  taskSequence: number;
}

/**
 * First line of a stored dead letter. The body follows. The field names must not change, because earlier versions
 * stored them.
 */
interface StoredHead {
  id: string;
  seq: number;
  reason: string;
  attempts: number;
  firstAt: number;
  lastAt: number;
  taskPlace: number;
}

/** Stream of the dead letters of all nodes. When the stream is full, JetStream evicts the oldest dead letter. */
export class DeadLetterStore extends Stream {
  /** Stores a dead letter. Only one copy is kept if the same dead letter is stored twice. */
  add(letter: DeadLetter, taskSequence: number): Promise<PubAck> {
    const { id, body, sequence: seq, attempts, acceptedAt: firstAt, failedAt: lastAt } = letter;
    const reason = letter.reason.slice(0, MAX_REASON_LENGTH);
    const head: StoredHead = { id, seq, reason, attempts, firstAt, lastAt, taskPlace: taskSequence };
    const text = `${JSON.stringify(head)}\n${body}`;
    return this.store(token(id), text, { msgID: `${token(id)} ${taskSequence}` });
  }

  async get(id: string): Promise<StoredLetter | undefined> {
    const message = await this.last(token(id));
    return message === null ? undefined : parse(message);
  }

  /** Returns up to `limit` dead letters, newest first, without their bodies. */
  async newest(limit: number): Promise<ListedDeadLetter[]> {
    const { messages, first_seq: first, last_seq: last } = await this.state();
    if (messages === 0) return [];
    // Doubles the range until it holds `limit` dead letters, because removed dead letters leave gaps in the sequences.
    for (let range = limit; ; range *= 2) {
      const from = Math.max(first, last + 1 - range);
      const heads = await this.#heads(from, last);
      if (heads.length >= limit || from === first) return heads.slice(-limit).reverse();
    }
  }

  async #read(streamSequence: number): Promise<DeadLetter | undefined> {
    this.link.checkUp();
    const message = await this.at(streamSequence);
    return message === null ? undefined : parse(message).letter;
  }

  /** Lists the dead letters with stream sequences `from` to `last`, oldest first. */
  async #heads(from: number, last: number): Promise<ListedDeadLetter[]> {
    const heads: ListedDeadLetter[] = [];
    const consumer = await this.link.jetstream.consumers.get(this.name, {
      headers_only: true,
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: from,
    });
    try {
      let pending = (await consumer.info()).num_pending;
      while (pending > 0) {
        const before = heads.length;
        for await (const message of await consumer.fetch({ max_messages: pending, expires: LISTING_WAIT_MS })) {
          pending = message.info.pending;
          const bytes = Number(message.headers?.get('Nats-Msg-Size') || 0);
          if (message.seq <= last) heads.push({ bytes, read: () => this.#read(message.seq) });
          if (pending === 0 || message.seq >= last) return heads;
        }
        // Stops if nothing arrived, because pending dead letters may have been removed.
        if (heads.length === before) break;
      }
      return heads;
    } finally {
      // Deletes the ephemeral consumer, because the server would otherwise keep it for minutes.
      await consumer.delete().catch(() => {});
    }
  }
}

function parse({ data, seq }: Pick<StoredMsg, 'data' | 'seq'>): StoredLetter {
  const text = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString();
  const end = text.indexOf('\n');
  const head: StoredHead = JSON.parse(text.slice(0, end));
  const { id, reason, attempts, seq: sequence, firstAt: acceptedAt, lastAt: failedAt, taskPlace: taskSequence } = head;
  const letter = { id, body: text.slice(end + 1), sequence, reason, attempts, acceptedAt, failedAt };
  return { letter, streamSequence: seq, taskSequence };
}
