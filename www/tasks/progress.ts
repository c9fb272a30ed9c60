import type { TaskProgress } from '../client/task-state.ts';
import { part } from '../shared/dom.ts';
import { visibleText } from './visible-text.ts';

/** Shows the progress of a task, or hides the progress bar if `progress` is undefined. */
export function showProgress(element: HTMLElement, progress: TaskProgress | undefined): void {
  part(element, 'progress', HTMLElement).hidden = progress === undefined;
  if (progress === undefined) return;
  part(element, 'progress-bar', HTMLProgressElement).value = progress.fraction;
  part(element, 'progress-percent', HTMLElement).textContent = `${Math.floor(progress.fraction * 100)} %`;
  part(element, 'progress-note', HTMLElement).textContent = visibleText(progress.note ?? '');
}
