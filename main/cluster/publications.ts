import { JetStreamApiError, type PubAck } from '@nats-io/jetstream';
import { createInbox, type Msg, type MsgHdrs, type NatsConnection } from '@nats-io/transport-node';

interface Unconfirmed {
  resolve(ack: PubAck): void;
  reject(error: Error): void;
  /** Monotonic time in milliseconds. */
  deadline: number;
}

/**
 * Publishes messages to JetStream. Unlike the client's `publish`, creates neither a timer nor errors for each message,
 * which cost as much as the rest of the call. Does not limit the number of unconfirmed messages: the caller limits their
 * bytes (`NatsPublisher`), and each is unconfirmed for at most `timeoutMs`.
 */
export class Publications {
  readonly #connection: NatsConnection;
  readonly #timeoutMs: number;
  readonly #inbox = createInbox();
  /** Unconfirmed messages by the last token of their reply subject, oldest first. */
  readonly #unconfirmed = new Map<string, Unconfirmed>();
  #published = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(connection: NatsConnection, timeoutMs: number) {
    this.#connection = connection;
    this.#timeoutMs = timeoutMs;
    connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => {
        if (error === null) this.#receive(message);
      },
    });
    void connection.closed().then(() => this.#rejectAll(new Error('the connection to NATS is closed')));
  }

  /** @throws {Error} if JetStream does not confirm the message in time; the message may still be stored */
  async publish(subject: string, payload: string, headers: MsgHdrs): Promise<PubAck> {
    const token = String(++this.#published);
    this.#connection.publish(subject, payload, { headers, reply: `${this.#inbox}.${token}` });
    const { promise, resolve, reject } = Promise.withResolvers<PubAck>();
    this.#unconfirmed.set(token, { resolve, reject, deadline: performance.now() + this.#timeoutMs });
    this.#timer ??= setTimeout(() => this.#expire(), this.#timeoutMs).unref();
    return promise;
  }

  #receive(message: Msg): void {
    const token = message.subject.slice(this.#inbox.length + 1);
    const unconfirmed = this.#unconfirmed.get(token);
    if (unconfirmed === undefined) return;
    this.#unconfirmed.delete(token);
    try {
      unconfirmed.resolve(readAck(message));
    } catch (error) {
      unconfirmed.reject(error as Error);
    }
  }

  #rejectAll(error: Error): void {
    clearTimeout(this.#timer);
    for (const { reject } of this.#unconfirmed.values()) reject(error);
    this.#unconfirmed.clear();
  }

  #expire(): void {
    const now = performance.now();
    for (const [token, { deadline, reject }] of this.#unconfirmed) {
      if (deadline > now) break;
      this.#unconfirmed.delete(token);
      reject(new Error('JetStream did not confirm the message in time'));
    }
    const [oldest] = this.#unconfirmed.values();
    this.#timer = oldest && setTimeout(() => this.#expire(), oldest.deadline - now).unref();
  }
}

/** @throws {Error} if JetStream did not store the message */
function readAck(message: Msg): PubAck {
  // NATS answers with an empty message if JetStream is not available.
  if (message.data.length === 0) throw new Error('JetStream does not respond');
  const { error, ...ack } = message.json<PubAck & { error?: ConstructorParameters<typeof JetStreamApiError>[0] }>();
  if (error !== undefined) throw new JetStreamApiError(error);
  return ack;
}
