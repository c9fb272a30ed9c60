import { DeliverPolicy, type JetStreamManager, type PubAck, type StoredMsg } from '@nats-io/jetstream';
import type { DeadLetter } from '../../tasks/queue/queue.ts';
import { removeMessage } from './revisioned-store.ts';
import { streamName, subject, token } from './streams.ts';

/** Longest wait for one batch of messages when dead letters are listed. */
const LISTING_WAIT_MS = 2000;
/** Maximum length of a stored failure reason. Longer reasons are truncated, so that every queued task can be dead-lettered. */
const MAX_REASON_LENGTH = 4096;

/** A dead letter with its sequences in the streams. */
export interface StoredLetter {
  letter: DeadLetter;
  /** Sequence in the stream of dead letters. */
  streamSequence: number;
  /** Sequence that the message had in the stream of tasks. */
  taskSequence: number;
}

/** First line of a stored dead letter, followed by the body. The field names must match dead letters stored by earlier versions. */
interface StoredHead {
  id: string;
  seq: number;
  reason: string;
  attempts: number;
  firstAt: number;
  lastAt: number;
  taskPlace: number;
}

/** Dead letters of all nodes in a stream, one message each. At a bound of the stream, JetStream evicts the oldest dead letter. */
export class DeadLetterStore {
  readonly #manager: JetStreamManager;
  readonly #prefix: string;
  readonly #stream: string;

  constructor(manager: JetStreamManager, prefix: string) {
    this.#manager = manager;
    this.#prefix = prefix;
    this.#stream = streamName(prefix, 'letters');
  }

  /** Stores a dead letter. Storing the same dead letter again leaves only one. */
  store(letter: DeadLetter, taskSequence: number): Promise<PubAck> {
    const { id, body, sequence: seq, attempts, acceptedAt: firstAt, failedAt: lastAt } = letter;
    const reason = letter.reason.slice(0, MAX_REASON_LENGTH);
    const head: StoredHead = { id, seq, reason, attempts, firstAt, lastAt, taskPlace: taskSequence };
    const text = `${JSON.stringify(head)}\n${body}`;
    const options = { msgID: `${token(id)} ${taskSequence}` };
    return this.#manager.jetstream().publish(subject(this.#prefix, 'letters', token(id)), text, options);
  }

  async get(id: string): Promise<StoredLetter | undefined> {
    const query = { last_by_subj: subject(this.#prefix, 'letters', token(id)) };
    const message = await this.#manager.streams.getMessage(this.#stream, query);
    return message === null ? undefined : parse(message);
  }

  /** Returns the stream sequences and sizes in bytes of up to `limit` dead letters, newest first. */
  async newest(limit: number): Promise<Array<{ streamSequence: number; bytes: number }>> {
    const { messages, first_seq: first, last_seq: last } = (await this.#manager.streams.info(this.#stream)).state;
    if (messages === 0) return [];
    // Removed dead letters leave gaps in the stream sequences, so the range is doubled until it holds `limit` dead letters.
    for (let range = limit; ; range *= 2) {
      const from = Math.max(first, last + 1 - range);
      const heads = await this.#heads(from, last);
      if (heads.length >= limit || from === first) return heads.slice(-limit).reverse();
    }
  }

  /** Reads a dead letter by its stream sequence. Returns undefined if it was removed. */
  async read(streamSequence: number): Promise<DeadLetter | undefined> {
    const message = await this.#manager.streams.getMessage(this.#stream, { seq: streamSequence });
    return message === null ? undefined : parse(message).letter;
  }

  async #heads(from: number, last: number) {
    const heads: Array<{ streamSequence: number; bytes: number }> = [];
    const consumer = await this.#manager.jetstream().consumers.get(this.#stream, {
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
          if (message.seq <= last) heads.push({ streamSequence: message.seq, bytes });
          if (pending === 0 || message.seq >= last) return heads;
        }
        // Ends if no message arrived, because dead letters may have been removed since `pending` was read.
        if (heads.length === before) break;
      }
      return heads;
    } finally {
      // Without this, the server would keep the ephemeral consumer for minutes.
      await consumer.delete().catch(() => {});
    }
  }

  /** Removes a dead letter. @returns false if it was already removed */
  remove(streamSequence: number): Promise<boolean> {
    return removeMessage(this.#manager, this.#stream, streamSequence);
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
