import { createHmac } from 'node:crypto';
import type { Awaitable, CallbackData, Delivery, FoundTask } from '../../../db/task-store.ts';
import type { Clock, Random } from '../../../workers/shared/clock.ts';
import { oneLine } from '../../../workers/shared/thrown.ts';
import { isLocalByName, readCallbackUrl } from '../../../workers/submissions/callback-url.ts';
import { cut } from '../../../workers/submissions/parse-submission.ts';
import { CounterByLabel } from '../../metrics/metrics-table.ts';
import { completedTask, unfinishedTask } from '../http/task-status.ts';
import { type AttemptListener, type Outcome, STOPPED } from '../pool/run.ts';
import { type Answer, post } from './post.ts';
import { publicLookup } from './public-addresses.ts';

export interface CallbackSenderOptions {
  hosts: readonly string[];
  secrets: readonly Buffer[];
  find: (id: string) => Awaitable<FoundTask | undefined>;
  clock: Clock;
  random: Pick<Random, 'number'>;
}

/** Delays in seconds after the first failed attempts, a day in total. */
const DELAYS = [5, 60, 300, 1800, 7200, 14_400, 28_800, 36_000];
export const CALLBACK_ATTEMPTS = DELAYS.length + 1;
const JITTER = 0.1;
const LONGEST_DELAY_MS = 24 * 60 * 60 * 1000;
/** Maximum number of characters of an answer in the output or reason of a callback. */
const ANSWER_LENGTH = 200;
const GONE = 410;

/** Sends callbacks from the main thread. */
export class CallbackSender {
  readonly outcomes = new CounterByLabel(['delivered', 'failed']);
  readonly #options: CallbackSenderOptions;
  /** Requests in flight. The reason of an abort is the outcome of the delivery. */
  readonly #sending = new Map<Delivery, AbortController>();

  constructor(options: CallbackSenderOptions) {
    this.#options = options;
  }

  /** Whether callbacks may be sent. */
  get isUsed(): boolean {
    return this.#options.hosts.length > 0;
  }

  /** Never rejects. */
  async run(delivery: Delivery, { onStart }: Pick<AttemptListener, 'onStart'>): Promise<Outcome> {
    const controller = new AbortController();
    const { signal } = controller;
    this.#sending.set(delivery, controller);
    onStart();
    const onError = ({ message, code }: NodeJS.ErrnoException) => this.#failure(delivery, message || `${code}`);
    const outcome = await this.#send(delivery, signal).catch(onError);
    this.#sending.delete(delivery);
    if (signal.aborted && outcome.ended !== 'returned') return signal.reason;
    this.outcomes.count(outcome.ended === 'returned' ? 'delivered' : 'failed');
    return outcome;
  }

  /** Aborts the request of a callback. Returns false, because it has started. */
  cancel(delivery: Delivery): boolean {
    this.#sending.get(delivery)?.abort({ ended: 'cancelled' } satisfies Outcome);
    return false;
  }

  /** Aborts all requests. Their deliveries end as `released`. */
  stop(): void {
    for (const controller of this.#sending.values()) controller.abort(STOPPED);
  }

  async #send(delivery: Delivery, signal: AbortSignal): Promise<Outcome> {
    const { hosts, secrets, clock } = this.#options;
    const data: CallbackData = JSON.parse(delivery.body).data;
    // The setting may have changed since the submission.
    const read = readCallbackUrl(data.url, hosts);
    if ('wrong' in read) return { ended: 'raised', permanent: true, reason: `callback_url: ${read.wrong}` };
    const url = new URL(read.url);
    const body = JSON.stringify(await this.#report(data));
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'ticker-and-tasks',
      ...(delivery.traceparent && { traceparent: delivery.traceparent }),
      ...webhookHeaders(delivery.id, Math.floor(clock.now() / 1000), body, secrets),
    };
    const lookup = isLocalByName(url.hostname) ? undefined : publicLookup;
    const answer = await post(url, { headers, body, signal, lookup, clock });
    const text = cut(answer.text, ANSWER_LENGTH);
    const { status } = answer;
    if (status >= 200 && status < 300) return { ended: 'returned', output: JSON.stringify({ status, answer: text }) };
    const reason = oneLine(`the receiver answered ${status}${text && `: ${text}`}`);
    return this.#failure(delivery, reason, answer);
  }

  /**
   * Returns the task as `GET /tasks/<id>` does, or only its id, action and end if the task is gone or no longer ended in
   * this way.
   */
  async #report({ task: id, action, status }: CallbackData): Promise<object> {
    const found = await this.#options.find(id);
    if (found !== undefined && 'row' in found && status === 'completed') return completedTask(found.row);
    const isFailed = found !== undefined && 'message' in found && found.message.state === 'failed';
    return isFailed && status === 'failed' ? unfinishedTask(found.message) : { id, action, status };
  }

  #failure({ attempt }: Delivery, reason: string, answer?: Answer): Outcome {
    const { clock, random } = this.#options;
    const ownMs = (DELAYS[attempt - 1] ?? 0) * 1000 * (1 - JITTER + 2 * JITTER * random.number());
    const askedMs = answer ? waitOf(answer.headers['retry-after'] ?? '', clock.now()) : 0;
    const retryAfterMs = Math.floor(Math.max(ownMs, Math.min(askedMs, LONGEST_DELAY_MS)));
    return { ended: 'raised', permanent: answer?.status === GONE, reason, retryAfterMs };
  }
}

/** Returns the milliseconds of a `Retry-After` header, or 0 if it is invalid. */
function waitOf(header: string, now: number): number {
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
  return Math.max(ms || 0, 0);
}

/** Returns the headers that Standard Webhooks defines. Each key signs the body, so that a receiver may know one of them. */
function webhookHeaders(id: string, timestamp: number, body: string, keys: readonly Buffer[]) {
  const sign = (key: Buffer) => createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  const signature = keys.map((key) => `v1,${sign(key)}`).join(' ');
  return { 'webhook-id': id, 'webhook-timestamp': `${timestamp}`, 'webhook-signature': signature };
}
