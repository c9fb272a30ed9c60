import { type QueueStatus, readQueue } from './board-api.ts';
import { Refused } from './tasks-api.ts';

/** Timeout of a request. With a request every second, it bounds the number of open requests to three. */
const TIMEOUT_MS = 3_000;
/** Longest delay that the service can ask for with `Retry-After`. */
const MAX_RETRY_AFTER_MS = 60_000;

/** Listeners of {@link QueueRequests}. */
export interface AnswerListeners {
  onAnswer(status: QueueStatus): void;
  onFailure(error: unknown): void;
}

/** Sends requests of `GET /queue` without waiting for earlier answers. Discards answers that arrive out of order. */
export class QueueRequests {
  readonly #listeners: AnswerListeners;
  #sent = 0;
  #answered = 0;
  #notBefore = 0;

  constructor(listeners: AnswerListeners) {
    this.#listeners = listeners;
  }

  /** Sends a request, unless the service has asked to wait. */
  send(): void {
    if (performance.now() >= this.#notBefore) void this.#send();
  }

  /** Sends a request although the service has asked to wait. */
  sendNow(): void {
    void this.#send();
  }

  /** Discards the answers to all open requests. */
  discard(): void {
    this.#answered = this.#sent;
  }

  async #send(): Promise<void> {
    this.#sent += 1;
    const number = this.#sent;
    try {
      const status = await readQueue(TIMEOUT_MS);
      if (this.#isNews(number)) this.#listeners.onAnswer(status);
    } catch (error) {
      if (!this.#isNews(number)) return;
      const { retryAfterMs = 0 } = error instanceof Refused ? error : {};
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
