import { makeCopyButton } from '../shared/copy-button.ts';
import { part } from '../shared/dom.ts';
import { formatSize } from './amounts.ts';
import { type BoardTask, isUnfinished } from './board-task.ts';
import { curlCommand } from './curl.ts';
import { InspectorActions } from './inspector-actions.ts';
import { indent, readPayload } from './json-text.ts';
import { LongText } from './long-text.ts';
import { showProgress } from './progress.ts';
import { findTask, isSignedOut, type Submission } from './service.ts';
import type { Store } from './store.ts';
import { noteOf, type TaskDetail } from './task-detail.ts';
import { factsOf, showFacts } from './task-facts.ts';
import { Timeline } from './timeline.ts';
import { visibleText } from './visible-text.ts';

/** Interval of requests for an unfinished task, in case an event was missed. */
const POLL_MS = 2_000;
const MIN_WAIT_MS = 250;
/** Windows that the inspector covers completely. */
const NARROW = '(max-width: 48rem)';

export interface InspectorOptions {
  host: HTMLDialogElement;
  store: Pick<Store, 'get' | 'keep' | 'subscribe' | 'onGap'>;
  onClose(): void;
  onResubmit(submission: Submission): void;
}

/** Panel that shows one task with its timeline, payload, result and progress. */
export class Inspector {
  readonly #host: HTMLDialogElement;
  readonly #options: InspectorOptions;
  readonly #title: HTMLElement;
  readonly #timeline: Timeline;
  readonly #actions: InspectorActions;
  readonly #payload: LongText;
  readonly #result: LongText;
  readonly #curl: LongText;
  #id: string | undefined;
  #detail: TaskDetail | undefined;
  #seen = '';
  #timer: ReturnType<typeof setTimeout> | undefined;
  #lastRead = 0;
  #opener: Element | null = null;
  #release = () => {};

  constructor(options: InspectorOptions) {
    const { host, store } = options;
    this.#host = host;
    this.#options = options;
    this.#title = part(host, 'inspector-title', HTMLElement);
    this.#timeline = new Timeline(part(host, 'timeline', HTMLElement));
    [this.#payload, this.#result, this.#curl] = ['payload-text', 'result-text', 'curl-text'].map(
      (name) => new LongText(part(host, name, HTMLElement)),
    ) as [LongText, LongText, LongText];
    this.#actions = new InspectorActions(host, {
      onChange: () => this.#read(),
      onResubmit: (submission) => {
        this.#close(false);
        options.onResubmit(submission);
      },
    });
    makeCopyButton(part(host, 'copy-id', HTMLButtonElement), part(host, 'inspector-id', HTMLElement));
    part(host, 'close-inspector', HTMLButtonElement).addEventListener('click', () => this.#close(true));
    document.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && !this.#isElsewhere(event.target)) this.#close(true);
    });
    host.addEventListener('cancel', (event) => {
      event.preventDefault();
      this.#close(true);
    });
    store.subscribe(() => this.#onStore());
    store.onGap(() => this.#read());
    document.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'visible') this.#read();
    });
  }

  /** Id of the inspected task. Undefined while the inspector is closed. */
  get id(): string | undefined {
    return this.#id;
  }

  /** Shows a task, or closes the inspector if `id` is undefined. @param focus whether the inspector gets the focus */
  show(id: string | undefined, { focus = true } = {}): void {
    if (id === undefined) {
      this.#hide();
      return;
    }
    if (id !== this.#id) {
      this.#release();
      this.#release = this.#options.store.keep(id);
      this.#id = id;
      this.#detail = undefined;
      this.#say('');
      this.#write();
      this.#host.scrollTop = 0;
      this.#read();
    }
    this.#open(focus);
  }

  #open(focus: boolean): void {
    const active = document.activeElement;
    if (!this.#host.open) {
      this.#opener = active;
      if (matchMedia(NARROW).matches) this.#host.showModal();
      else this.#host.show();
    }
    if (focus) this.#title.closest('h2')?.focus();
    else if (active instanceof HTMLElement) active.focus();
  }

  #hide(): void {
    clearTimeout(this.#timer);
    this.#release();
    this.#release = () => {};
    this.#id = undefined;
    this.#timeline.show([]);
    if (this.#host.open) this.#host.close();
  }

  #close(refocus: boolean): void {
    if (this.#id === undefined) return;
    this.#hide();
    if (refocus && this.#opener instanceof HTMLElement && this.#opener.isConnected) this.#opener.focus();
    this.#options.onClose();
  }

  /** Returns whether the Escape key has another function at an element: closing another dialog or clearing an input. */
  #isElsewhere(target: EventTarget | null): boolean {
    const dialog = document.querySelector('dialog:modal');
    return (dialog !== null && dialog !== this.#host) || (target as Element).matches('input, textarea, select');
  }

  #onStore(): void {
    if (document.body.dataset.connection === 'signed-out') this.#host.close();
    const known = this.#known;
    if (known === undefined || this.#id === undefined) return;
    if (versionOf(known) !== this.#seen) this.#read();
    else if (known.state === 'running') showProgress(this.#host, known.progress ?? this.#detail?.progress);
  }

  /** Requests the task, but at most every {@link MIN_WAIT_MS} milliseconds. */
  #read(): void {
    clearTimeout(this.#timer);
    const id = this.#id;
    if (id === undefined) return;
    const wait = this.#detail === undefined ? 0 : this.#lastRead + MIN_WAIT_MS - performance.now();
    if (wait > 0) {
      this.#timer = setTimeout(() => this.#read(), wait);
      return;
    }
    this.#lastRead = performance.now();
    this.#seen = versionOf(this.#known);
    void findTask<TaskDetail>(id).then(
      (detail) => this.#show(id, detail),
      (error: Error) => this.#onError(id, error),
    );
  }

  #onError(id: string, error: Error): void {
    if (id !== this.#id) return;
    if (isSignedOut(error)) {
      // The inspector must not cover the sign-in form.
      this.#host.close();
      return;
    }
    this.#say(`Not up to date: ${error.message}`);
    this.#schedule();
  }

  #show(id: string, found: TaskDetail | undefined): void {
    if (id !== this.#id) return;
    const { status } = this.#detail ?? {};
    if (found !== undefined) this.#detail = found;
    else if (this.#known?.state === 'cancelled' || this.#actions.isCancelling) {
      this.#detail = { ...this.#detail, id, status: 'cancelled' };
    } else this.#detail = { ...this.#detail, id, status: status === 'cancelled' ? status : 'unknown' };
    if (!this.#host.open) this.#open(true);
    this.#say(noteOf(this.#detail));
    this.#write();
    if (isUnfinished(this.#detail.status)) this.#schedule();
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    if (document.visibilityState === 'hidden') return;
    this.#timer = setTimeout(() => this.#read(), POLL_MS);
  }

  #write(): void {
    const known = this.#known;
    const detail: TaskDetail = this.#detail ?? { id: this.#id ?? '', status: known?.state ?? 'loading' };
    const { payload, result } = detail;
    const submission = payload === undefined ? undefined : readPayload(payload);
    this.#title.textContent = visibleText(submission?.action ?? known?.action ?? 'Task');
    part(this.#host, 'inspector-id', HTMLElement).textContent = detail.id;
    part(this.#host, 'inspector-state', HTMLElement).textContent = detail.status;
    part(this.#host, 'inspector-mark', HTMLElement).dataset.state = detail.status;
    this.#host.dataset.state = detail.status;
    showFacts(part(this.#host, 'facts', HTMLElement), factsOf(detail, submission));
    this.#timeline.show(isKnown(detail) ? { detail, known } : []);
    showProgress(this.#host, detail.status === 'running' ? (known?.progress ?? detail.progress) : undefined);
    this.#actions.show(detail.id, detail.status, submission);
    this.#writeText('payload-text', this.#payload, payload);
    this.#writeText('result-text', this.#result, result ?? undefined);
    this.#writeText('curl-text', this.#curl, submission && curlCommand(location.origin, submission));
  }

  #writeText(name: string, text: LongText, value: string | undefined): void {
    const section = part(this.#host, name, HTMLElement);
    section.hidden = value === undefined;
    if (value === undefined) return;
    text.show(name === 'curl-text' ? value : indent(value));
    const size = section.querySelector('[data-part="size"]');
    if (size !== null) size.textContent = formatSize(new Blob([value]).size);
  }

  #say(text: string): void {
    const note = part(this.#host, 'inspector-note', HTMLElement);
    if (note.textContent === text) return;
    note.textContent = text;
    note.hidden = text === '';
  }

  get #known(): BoardTask | undefined {
    return this.#id === undefined ? undefined : this.#options.store.get(this.#id);
  }
}

/** Returns a text that changes whenever the task changes, except for its progress. */
function versionOf(task: BoardTask | undefined): string {
  return task === undefined ? '' : [task.state, task.attempt, task.attempts, task.endedAtMs].join(' ');
}

function isKnown({ status }: TaskDetail): boolean {
  return status !== 'unknown' && status !== 'loading';
}
