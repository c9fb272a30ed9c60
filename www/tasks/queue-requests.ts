import { ServiceError } from '../client/errors.ts';
import type { QueueStatus } from '../client/queue-api.ts';
import { queue } from './service.ts';

/** With one request per second, a timeout of three seconds bounds the number of open requests to three. */
const TIMEOUT_MS = 3_000;
/** Longest accepted delay in a `Retry-After` header. */
const MAX_RETRY_AFTER_MS = 60_000;

export interface AnswerListeners {
  onAnswer(status: QueueStatus): void;
  onFailure(error: unknown): void;
}

/** Sends `GET /queue` requests without waiting for earlier responses, and discards responses out of order. */
export class QueueRequests {
  readonly #listeners: AnswerListeners;
  #sent = 0;
  #answered = 0;
  #notBefore = 0;

  constructor(listeners: AnswerListeners) {
    this.#listeners = listeners;
  }

  /** Sends a `GET /queue` request, unless the service has asked to wait with `Retry-After`. */
  send(): void {
    if (performance.now() >= this.#notBefore) void this.#send();
  }

  /** Sends a `GET /queue` request even if the service has asked to wait with `Retry-After`. */
  sendNow(): void {
    void this.#send();
  }

  discard(): void {
    this.#answered = this.#sent;
  }

  async #send(): Promise<void> {
    this.#sent += 1;
    const number = this.#sent;
    try {
      const status = await queue.status({ signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (this.#isNews(number)) this.#listeners.onAnswer(status);
    } catch (error) {
      if (!this.#isNews(number)) return;
      const { retryAfterMs = 0 } = error instanceof ServiceError ? error : {};
      this.#notBefore = performance.now() + Math.min(retryAfterMs, MAX_RETRY_AFTER_MS);
      this.#listeners.onFailure(error);
    }
  }

  #isNews(number: number): boolean {
    if (number <= this.#answered) return false;
    this.#answered = number;
    return true;
  }
}
