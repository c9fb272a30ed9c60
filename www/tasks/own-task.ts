import { part, stamp } from '../shared/dom.ts';
import { addressOf } from './address.ts';
import { isUnfinished } from './board-task.ts';
import { formatMeasured } from './durations.ts';
import { describeState, type OwnTaskState } from './own-task-state.ts';
import { showProgress } from './progress.ts';
import type { Submission } from './service.ts';
import { visibleText } from './visible-text.ts';

const MAX_OUTPUT = 1_000;

export interface OwnTaskActions {
  onRetry(task: OwnTask): void;
  onCancel(task: OwnTask): void;
  onEdit(submission: Submission): void;
  onOpen(id: string): void;
}

export class OwnTask {
  readonly id: string;
  readonly submission: Submission;
  readonly element = stamp('own-task');
  /** `performance.now()` when the task was queued or redriven. */
  queuedAt = performance.now();
  #state: OwnTaskState = { status: 'queued' };
  #cancelling = false;

  constructor(id: string, submission: Submission, actions: OwnTaskActions) {
    this.id = id;
    this.submission = submission;
    this.element.dataset.id = id;
    const link = part(this.element, 'action', HTMLAnchorElement);
    link.textContent = this.name;
    link.href = addressOf({ task: id });
    link.addEventListener('click', (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      actions.onOpen(id);
    });
    part(this.element, 'progress-bar', HTMLElement).setAttribute('aria-label', `Progress of ${this.name}`);
    this.#onClick('try-again', () => actions.onRetry(this));
    this.#onClick('edit', () => actions.onEdit(submission));
    this.#onClick('cancel', () => actions.onCancel(this));
    this.show({ status: 'queued' });
  }

  get name(): string {
    return visibleText(this.submission.action);
  }

  get status(): OwnTaskState['status'] {
    return this.#state.status;
  }

  get isOpen(): boolean {
    return isUnfinished(this.status);
  }

  get cancelling(): boolean {
    return this.#cancelling;
  }

  set cancelling(cancelling: boolean) {
    this.#cancelling = cancelling;
    this.show(this.#state);
  }

  show(state: OwnTaskState): void {
    this.#state = state;
    this.#cancelling &&= this.isOpen;
    this.element.dataset.state = state.status;
    part(this.element, 'mark', HTMLElement).dataset.state = state.status;
    part(this.element, 'output', HTMLElement).textContent = shorten(visibleText(describeState(state).output));
    const isPermanent = state.status === 'failed' && state.permanent;
    part(this.element, 'try-again', HTMLElement).hidden = state.status !== 'failed' || isPermanent;
    part(this.element, 'edit', HTMLElement).hidden = state.status !== 'failed';
    showProgress(this.element, state.status === 'running' ? state.progress : undefined);
    this.#showCancel();
    const took = formatMeasured(performance.now() - this.queuedAt);
    part(this.element, 'time', HTMLElement).textContent = state.status === 'completed' ? `after ${took}` : '';
    this.age();
  }

  /** Updates the countdown to the next attempt and the time since the task was queued. */
  age(): void {
    const word = this.#cancelling ? 'cancelling' : describeState(this.#state).word;
    setText(part(this.element, 'state', HTMLElement), word);
    const elapsed = formatMeasured(performance.now() - this.queuedAt);
    if (this.isOpen && this.status !== 'retrying') setText(part(this.element, 'time', HTMLElement), elapsed);
  }

  #onClick(name: string, listener: () => void): void {
    part(this.element, name, HTMLButtonElement).addEventListener('click', listener);
  }

  /** Shows or hides the cancel button. If the hidden button had the focus, the list item gets the focus. */
  #showCancel(): void {
    const button = part(this.element, 'cancel', HTMLButtonElement);
    const isFocused = document.activeElement === button;
    button.hidden = !this.isOpen;
    // A button with the `disabled` attribute loses the focus.
    button.ariaDisabled = String(this.#cancelling);
    if (isFocused && button.hidden) this.element.focus();
  }
}

function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

function shorten(text: string): string {
  return text.length > MAX_OUTPUT ? `${text.slice(0, MAX_OUTPUT)}…` : text;
}
