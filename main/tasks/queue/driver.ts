/** What the dispatcher and the tasks router need of a queue. Every driver passes `spec/drivers`. */
export interface QueueDriver {
  /** Whether what it holds outlives the process. */
  readonly durable: boolean;
  /**
   * Takes a message over; once the promise is fulfilled it will be delivered.
   *
   * @throws {QueueFull} when a bound is reached; the message is not taken
   */
  publish(message: Message): Promise<void>;
  /**
   * Hands deliveries to `receive` in order, never more than `prefetch` that are not settled.
   * A queue has one consumer at a time.
   */
  consume(prefetch: number, receive: (delivery: Delivery) => void): Consumer;
  counts(): QueueCounts;
  /** The tasks that were given up, oldest first. */
  deadLetters(): readonly DeadLetter[];
  /** Ends the queue; what is not settled by then is lost unless the driver keeps it elsewhere. */
  close(): Promise<void>;
}

/** A queued task; `body` is the JSON text of the specification's queued task message. */
export interface Message {
  id: string;
  body: string;
}

/** One attempt at a message. It settles once: of `ack`, `nack` and `release` the first call counts. */
export interface Delivery {
  readonly message: Message;
  /** The message's place in the order of arrival, across all that the queue ever took. */
  readonly seq: number;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** How many earlier attempts ended with the death of their thread. */
  readonly crashes: number;
  /** Notes that the attempt begins; a durable queue then knows what the process was at, should it die. */
  begin(): Promise<void>;
  /** Done: the message leaves the queue. */
  ack(): Promise<void>;
  /** Failed: the message is delivered again later, or given up, as `verdict` says. */
  nack(verdict: Verdict): Promise<void>;
  /** Not tried: the message goes back to the head of the queue as if it had never left. */
  release(): Promise<void>;
}

export type Verdict =
  | { verdict: 'retry'; delayMs: number; reason: string; crashed: boolean }
  | { verdict: 'dead'; reason: string };

export interface Consumer {
  /** No delivery is handed out after this call. */
  stop(): void;
}

/** accepted = completed + dead + dropped + waiting + delayed + inFlight, at any time. */
export interface QueueCounts {
  accepted: number;
  completed: number;
  /** Dead letters that are kept. */
  dead: number;
  /** Dead letters that had to make room for newer ones. */
  dropped: number;
  waiting: number;
  delayed: number;
  inFlight: number;
  /** Bytes of the messages that are waiting, delayed or in flight. */
  bytes: number;
}

/** A task that was given up. Times are milliseconds since the epoch: when it was accepted, and when it was given up. */
export interface DeadLetter {
  message: Message;
  /** The number that the message had in its queue. */
  seq: number;
  reason: string;
  attempts: number;
  firstAt: number;
  lastAt: number;
}

/** The queue has reached its bound by number or by bytes. */
export class QueueFull extends Error {
  override name = 'QueueFull';
}
