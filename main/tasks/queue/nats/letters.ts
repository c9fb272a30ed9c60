import type { JetStreamManager, PubAck, StoredMsg } from '@nats-io/jetstream';
import type { DeadLetter } from '../driver.ts';
import { streamName, subject, token } from './streams.ts';
import { removeMessage } from './values.ts';

/** Time for one part of a listing to arrive. */
const LISTING_WAIT_MS = 2000;

/** A reason is cut to so many characters, so that a letter about a task that could be queued can be stored. */
const LONGEST_REASON = 4096;

/** A dead letter in its stream. */
export interface StoredLetter {
  letter: DeadLetter;
  /** Its number in the stream of letters. */
  place: number;
  /** The number that the message had in the stream of tasks when it was given up. */
  taskPlace: number;
}

/** The tasks that were given up, on all nodes, one message each; the stream drops the oldest past its bounds. */
export class NatsLetters {
  readonly #manager: JetStreamManager;
  readonly #prefix: string;
  readonly #stream: string;

  constructor(manager: JetStreamManager, prefix: string) {
    this.#manager = manager;
    this.#prefix = prefix;
    this.#stream = streamName(prefix, 'letters');
  }

  /** Stores a letter; the same one again leaves one. */
  store({ body, ...head }: DeadLetter, taskPlace: number): Promise<PubAck> {
    const { id, reason } = head;
    const text = `${JSON.stringify({ ...head, reason: reason.slice(0, LONGEST_REASON), taskPlace })}\n${body}`;
    const options = { msgID: `${token(id)} ${taskPlace}` };
    return this.#manager.jetstream().publish(subject(this.#prefix, 'letters', token(id)), text, options);
  }

  async get(id: string): Promise<StoredLetter | undefined> {
    const query = { last_by_subj: subject(this.#prefix, 'letters', token(id)) };
    const message = await this.#manager.streams.getMessage(this.#stream, query);
    return message === null ? undefined : parse(message);
  }

  /** Oldest first. */
  async list(): Promise<DeadLetter[]> {
    const { messages } = (await this.#manager.streams.info(this.#stream)).state;
    const letters: DeadLetter[] = [];
    if (messages === 0) return letters;
    const consumer = await this.#manager.jetstream().consumers.get(this.#stream);
    for (let pending = messages; pending > 0; ) {
      const before = letters.length;
      for await (const message of await consumer.fetch({ max_messages: pending, expires: LISTING_WAIT_MS })) {
        letters.push(parse(message).letter);
        pending = message.info.pending;
        if (pending === 0) break;
      }
      // Some may have been removed since they were counted.
      if (letters.length === before) break;
    }
    return letters;
  }

  /** @returns whether it was still there */
  remove(place: number): Promise<boolean> {
    return removeMessage(this.#manager, this.#stream, place);
  }
}

function parse({ data, seq }: Pick<StoredMsg, 'data' | 'seq'>): StoredLetter {
  const text = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString();
  const end = text.indexOf('\n');
  const { taskPlace, ...head } = JSON.parse(text.slice(0, end));
  return { letter: { ...head, body: text.slice(end + 1) }, place: seq, taskPlace };
}
