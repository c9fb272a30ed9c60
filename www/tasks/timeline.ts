import { part, stamp } from '../shared/dom.ts';
import { formatClock, formatSpan } from './amounts.ts';
import type { BoardTask } from './board-task.ts';
import { type Step, type TaskDetail, timelineOf } from './task-detail.ts';
import { visibleText } from './visible-text.ts';

const TICK_MS = 200;

/** Steps of a task. The time of an unfinished step counts up, or down to the next attempt. */
export class Timeline {
  readonly #list: HTMLElement;
  #steps: Step[] = [];
  #shown = '';

  constructor(list: HTMLElement) {
    this.#list = list;
    setInterval(() => this.#tick(), TICK_MS);
  }

  show(task: { detail: TaskDetail; known: BoardTask | undefined } | []): void {
    this.#steps = Array.isArray(task) ? [] : timelineOf(task.detail, task.known);
    const version = JSON.stringify(this.#steps);
    if (version !== this.#shown) {
      this.#shown = version;
      this.#list.replaceChildren(...this.#steps.map((step, index) => renderStep(step, this.#steps[index - 1])));
    }
    this.#tick();
  }

  #tick(): void {
    const step = this.#steps.at(-1);
    const item = this.#list.lastElementChild;
    if (step?.atMs === undefined || item === null) return;
    const text = liveText(step, step.atMs);
    const element = part(item, 'step-live', HTMLElement);
    if (element.textContent !== text) element.textContent = text;
  }
}

function liveText({ kind }: Step, atMs: number): string {
  const sinceMs = Date.now() - atMs;
  if (kind === 'running') return `for ${formatSpan(Math.max(sinceMs, 0))}`;
  if (isAhead(kind)) return sinceMs < 0 ? `in ${formatSpan(-sinceMs)}` : 'is due';
  return '';
}

function isAhead(kind: Step['kind']): boolean {
  return kind === 'retrying' || kind === 'scheduled';
}

function renderStep(
  { kind, title, atMs, isExact = false, reason, stack }: Step,
  previous: Step | undefined,
): HTMLElement {
  const item = stamp('timeline-step');
  item.dataset.kind = kind;
  part(item, 'step-title', HTMLElement).textContent = title;
  part(item, 'step-reason', HTMLElement).textContent = visibleText(reason ?? '');
  part(item, 'step-stack', HTMLElement).textContent = visibleText(stack ?? '');
  if (atMs === undefined) return item;
  part(item, 'step-time', HTMLElement).textContent = formatClock(atMs, isExact);
  if (previous?.atMs === undefined || isAhead(kind)) return item;
  const isMeasured = isExact && previous.isExact === true;
  const spanMs = Math.max(atMs - previous.atMs, 0);
  // A span below two seconds between times in whole seconds is not shown, because it would be mostly rounding error.
  if (isMeasured || spanMs >= 2_000) part(item, 'step-span', HTMLElement).textContent = `+${formatSpan(spanMs)}`;
  return item;
}
