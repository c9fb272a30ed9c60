import { createHash } from 'node:crypto';
import {
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamPublishOptions,
  type PubAck,
  type SeqMsgRequest,
  type StoredMsg,
  type StreamConfig,
  type StreamState,
} from '@nats-io/jetstream';
import type { NatsLink } from '../nats-link.ts';

const SEQUENCE_NOT_FOUND = 10043;
const DELETE_FAILED = 10057;
/** Error messages for the deletion of a sequence before the first or after the last message of a stream. */
const OUTSIDE = ['no message found', 'stream store EOF'];

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** JetStream stream with one subject per item. The last token of a subject identifies the item. */
export class Stream {
  readonly link: NatsLink;
  readonly name: string;
  readonly #kind: string;

  constructor(link: NatsLink, kind: string) {
    this.link = link;
    this.name = `${link.prefix}-${kind}`;
    this.#kind = kind;
  }

  subject(item: string): string {
    return `${this.link.prefix}.${this.#kind}.${item}`;
  }

  /** Creates the stream, or updates its settings. @throws {Error} if NATS rejects the settings */
  setUp(settings: Partial<StreamConfig>): Promise<void> {
    return this.link.setUpStream(this.name, { subjects: [this.subject('*')], max_msgs_per_subject: 1, ...settings });
  }

  /** @throws {Error} if JetStream does not confirm the message in time; the message may still be stored */
  store(item: string, payload: string, options: Partial<JetStreamPublishOptions>): Promise<PubAck> {
    return this.link.jetstream.publish(this.subject(item), payload, options);
  }

  /** Reads an item's last message from the stream leader, because a replica may lag behind. */
  last(item: string): Promise<StoredMsg | null> {
    return this.link.manager.streams.getMessage(this.name, { last_by_subj: this.subject(item) });
  }

  at(seq: number): Promise<StoredMsg | null> {
    return this.link.manager.streams.getMessage(this.name, { seq });
  }

  /** Reads the first message at or after a sequence in the stream. */
  nextFrom(seq: number): Promise<StoredMsg | null> {
    // The types of the NATS client lack the server's option `next_by_subj`.
    const query = { seq, next_by_subj: this.subject('*') } as unknown as SeqMsgRequest;
    return this.link.manager.streams.getMessage(this.name, query);
  }

  async state(): Promise<StreamState> {
    return (await this.link.manager.streams.info(this.name)).state;
  }

  async purge(item: string): Promise<void> {
    await this.link.manager.streams.purge(this.name, { filter: this.subject(item) });
  }

  /** Removes a message by its sequence. Returns false if the message does not exist. */
  async remove(seq: number): Promise<boolean> {
    try {
      return await this.link.manager.streams.deleteMessage(this.name, seq, false);
    } catch (error) {
      if (error instanceof JetStreamApiError && isMissing(error)) return false;
      throw error;
    }
  }
}

function isMissing({ code, message }: JetStreamApiError): boolean {
  if (code === DELETE_FAILED) return OUTSIDE.includes(message);
  return code === SEQUENCE_NOT_FOUND || code === JetStreamApiCodes.NoMessageFound;
}

/** Converts a task id to a subject token. Hashes ids other than UUIDs, because subjects forbid some characters. */
export function token(id: string): string {
  return UUID.test(id) ? id : digest(id).slice(0, 36);
}

/** Returns the SHA-256 digest in hexadecimal. */
export function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
