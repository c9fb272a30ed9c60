/** A submitted task. `body` is the JSON text of an object with the fields `id`, `action`, `data` and `created_at`. */
export interface Message {
  readonly id: string;
  /** First characters of the action. */
  readonly action: string | undefined;
  readonly body: string;
  /** From 1, the first, to 5. 3 if undefined. */
  readonly priority?: number | undefined;
  /** When the message is due. Undefined for at once. */
  readonly runAt?: number | undefined;
  /** Messages with different keys take turns. 1 to 255 characters. */
  readonly limitKey?: string | undefined;
  /** Id of the user who submitted the task. Undefined without access control. */
  readonly submitter?: string | undefined;
  /** Name of the schedule that made the task. */
  readonly schedule?: string | undefined;
  /** Header `traceparent` of the submission (W3C Trace Context). */
  readonly traceparent?: string | undefined;
  /** Where the end of the task is reported: a normalised URL. */
  readonly callbackUrl?: string | undefined;
}

/**
 * `scheduled` messages are due later for their first attempt, `retrying` ones for their next, `waiting` ones are due, and
 * `limited` ones would wait if a limit of their action had room.
 */
export type MessageState = 'scheduled' | 'retrying' | 'limited' | 'waiting' | 'running' | 'failed';
