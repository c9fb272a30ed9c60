import { ServiceError, UnreachableError } from '../client/errors.ts';
import { part } from '../shared/dom.ts';

export interface Conditions {
  isLive: boolean;
  isFull: boolean;
}

/** Error message below the submit form, which disappears when the service is reachable or the queue has room. */
export class SubmitError {
  readonly #text: HTMLElement;
  readonly #button: HTMLButtonElement;
  #error: Error | undefined;
  #isLive = true;
  #wasOffline = false;
  /** `performance.now()` until which the service has asked to wait. */
  #notBefore = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(form: HTMLFormElement) {
    this.#text = part(form, 'submit-error', HTMLElement);
    this.#button = part(form, 'submit', HTMLButtonElement);
  }

  get isWaiting(): boolean {
    return performance.now() < this.#notBefore;
  }

  show(error: Error): void {
    this.#error = error;
    this.#wasOffline = !this.#isLive;
    const waitMs = error instanceof ServiceError ? (error.retryAfterMs ?? 0) : 0;
    this.#notBefore = performance.now() + waitMs;
    this.#write();
  }

  clear(): void {
    this.#error = undefined;
    this.#write();
  }

  update({ isLive, isFull }: Conditions): void {
    const error = this.#error;
    this.#isLive = isLive;
    this.#wasOffline ||= !isLive;
    const isBack = isLive && this.#wasOffline;
    const isOver =
      error instanceof UnreachableError
        ? isBack
        : error instanceof ServiceError && error.retryAfterMs !== undefined && isLive && !isFull;
    if (isOver && !this.isWaiting) this.clear();
    else this.#write();
  }

  #write(): void {
    clearTimeout(this.#timer);
    const seconds = Math.ceil((this.#notBefore - performance.now()) / 1000);
    const isWaiting = seconds > 0;
    // A button with the `disabled` attribute loses the focus.
    this.#button.ariaDisabled = String(isWaiting);
    const wait = isWaiting ? ` Try again in ${seconds} s.` : '';
    const text = this.#error === undefined ? '' : describe(this.#error, this.#isLive) + wait;
    if (text !== this.#text.textContent) this.#text.textContent = text;
    if (isWaiting) this.#timer = setTimeout(() => this.#write(), 250);
  }
}

/**
 * A `failed to queue task` error with a `Retry-After` header means that the queue is full, or that the database server
 * is unavailable, as requests for the state of the queue then tell.
 */
function describe(error: Error, isLive: boolean): string {
  if (error instanceof UnreachableError) return 'The service cannot be reached.';
  if (!(error instanceof ServiceError) || error.retryAfterMs === undefined) return error.message;
  const isFull = isLive && error.message === 'failed to queue task';
  return isFull ? 'The queue is full.' : `The service answers: ${error.message}.`;
}
