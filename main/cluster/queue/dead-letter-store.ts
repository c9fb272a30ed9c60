import { DeliverPolicy, type JsMsg, type PubAck, type StoredMsg } from '@nats-io/jetstream';
import { headers } from '@nats-io/transport-node';
import { type AttemptHistory, withoutOldest } from '../../../db/attempt-history.ts';
import { actionStart } from '../../../workers/parse-submission.ts';
import type { DeadLetter } from '../../tasks/queue/queue.ts';
import { HEADERS, taskIdOf } from './pending-delivery.ts';
import { digest, Stream, token } from './stream.ts';

const LISTING_WAIT_MS = 2000;
const MAX_BATCH = 500;
/** Maximum length of a dead letter's reason, because NATS limits the size of a message. Longer reasons are cut. */
const MAX_REASON_LENGTH = 4096;
/** Maximum size of a dead letter's head. Less than the bytes that `NatsPublisher` reserves for a head. */
const MAX_HEAD_BYTES = 30 * 1024;

/** Headers of a stored dead letter, readable without its body. Version 0.1.0 stores none of them. */
const LETTER_HEADERS = { reason: 'Reason-Digest', permanent: 'Permanent', action: 'Action' } as const;

export interface StoredLetter {
  letter: DeadLetter;
  /** Sequence in the dead-letter stream. */
  streamSequence: number;
  /** Sequence of the original message in the task stream. */
  taskSequence: number;
}

export interface LetterHead {
  id: string;
  streamSequence: number;
  bytes: number;
  /** Digest of the reason, or undefined for a dead letter that version 0.1.0 stored. */
  reasonDigest: string | undefined;
  permanent: boolean;
  /** First characters of the action, or undefined for a dead letter that version 0.1.0 stored. */
  action: string | undefined;
}

/**
 * First line of a stored dead letter, before the body. The field names must not change, because earlier versions stored
 * them. Version 0.1.0 stores neither `permanent` nor `history`.
 */
interface StoredHead {
  id: string;
  seq: number;
  reason: string;
  attempts: number;
  firstAt: number;
  lastAt: number;
  taskPlace: number;
  permanent?: boolean;
  history?: AttemptHistory;
}

/** Stream of the dead letters of all nodes. When the stream is full, JetStream evicts the oldest dead letter. */
export class DeadLetterStore extends Stream {
  /** Stores a dead letter. JetStream ignores a copy with the same task id and `taskSequence`. */
  add(letter: DeadLetter, taskSequence: number): Promise<PubAck> {
    const { id, body, permanent } = letter;
    const reason = letter.reason.slice(0, MAX_REASON_LENGTH);
    const head = headers();
    head.set(LETTER_HEADERS.reason, digest(reason));
    // JSON, because a header must not contain line breaks.
    head.set(LETTER_HEADERS.action, JSON.stringify(actionStart(body) ?? null));
    if (permanent) head.set(LETTER_HEADERS.permanent, 'true');
    if (token(id) !== id) head.set(HEADERS.id, encodeURIComponent(id));
    const text = `${headText({ ...letter, reason }, taskSequence)}\n${body}`;
    return this.store(token(id), text, { msgID: `${token(id)} ${taskSequence}`, headers: head });
  }

  async get(id: string): Promise<StoredLetter | undefined> {
    const message = await this.last(token(id));
    return message === null ? undefined : parse(message);
  }

  /** Reads a dead letter by its sequence in the dead-letter stream. */
  async letterAt(streamSequence: number): Promise<DeadLetter | undefined> {
    this.link.checkUp();
    const message = await this.at(streamSequence);
    return message === null ? undefined : parse(message).letter;
  }

  /** Returns dead letters with stream sequences `from` to `last`, without their bodies, oldest first. */
  async heads(from: number, last: number): Promise<LetterHead[]> {
    const heads: LetterHead[] = [];
    const consumer = await this.link.jetstream.consumers.get(this.name, {
      headers_only: true,
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: from,
    });
    try {
      let pending = (await consumer.info()).num_pending;
      while (pending > 0) {
        const before = heads.length;
        for await (const message of await consumer.fetch({
          max_messages: Math.min(pending, MAX_BATCH),
          expires: LISTING_WAIT_MS,
        })) {
          pending = message.info.pending;
          if (message.seq <= last) heads.push(headOf(message));
          if (pending === 0 || message.seq >= last) return heads;
        }
        // Stops if the fetch returned nothing, because the remaining dead letters may have been removed since.
        if (heads.length === before) break;
      }
      return heads;
    } finally {
      // The server would keep the ephemeral consumer for minutes.
      await consumer.delete().catch(() => {});
    }
  }
}

/** Returns a dead letter's fields, except the body, as JSON text. Leaves out the oldest attempts of a long history. */
function headText(letter: DeadLetter, taskPlace: number): string {
  const { id, sequence: seq, reason, attempts, acceptedAt: firstAt, failedAt: lastAt, permanent } = letter;
  for (let { history } = letter; ; history = withoutOldest(history)) {
    const head: StoredHead = { id, seq, reason, attempts, firstAt, lastAt, taskPlace, permanent, history };
    const text = JSON.stringify(head);
    if (history.length === 0 || Buffer.byteLength(text) <= MAX_HEAD_BYTES) return text;
  }
}

function headOf({ subject, seq, headers: head }: Pick<JsMsg, 'subject' | 'seq' | 'headers'>): LetterHead {
  return {
    id: taskIdOf(subject, head),
    streamSequence: seq,
    bytes: Number(head?.get('Nats-Msg-Size') || 0),
    reasonDigest: head?.get(LETTER_HEADERS.reason) || undefined,
    permanent: head?.get(LETTER_HEADERS.permanent) === 'true',
    action: JSON.parse(head?.get(LETTER_HEADERS.action) || 'null') ?? undefined,
  };
}

function parse({ data, seq }: Pick<StoredMsg, 'data' | 'seq'>): StoredLetter {
  const text = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString();
  const end = text.indexOf('\n');
  const head: StoredHead = JSON.parse(text.slice(0, end));
  const { id, reason, attempts, seq: sequence, firstAt: acceptedAt, lastAt: failedAt, taskPlace: taskSequence } = head;
  const { permanent = false, history = [] } = head;
  const body = text.slice(end + 1);
  const letter = { id, body, sequence, reason, attempts, acceptedAt, failedAt, permanent, history };
  return { letter, streamSequence: seq, taskSequence };
}
