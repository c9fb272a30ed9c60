import { part, stamp } from '../shared/dom.ts';
import type { BoardTask } from './board-task.ts';
import { makeCopyButton } from './copy-button.ts';
import { curlCommand } from './curl.ts';
import { formatBetween, formatMoment } from './durations.ts';
import { indent, readOutput, readPayload } from './json-text.ts';

/** List item for one task, with a summary line and details. */
export class TaskItem {
  readonly element = stamp('task-item');
  #shown = '';

  constructor() {
    const details = part(this.element, 'details', HTMLDetailsElement);
    makeCopyButton(part(details, 'copy-curl', HTMLButtonElement), part(details, 'curl', HTMLElement));
  }

  show(task: BoardTask): void {
    const version = JSON.stringify(task);
    if (version === this.#shown) return;
    this.#shown = version;
    const { id, action, state, payload = '', result = null, acceptedAtMs, endedAtMs } = task;
    const [created, ended] = [acceptedAtMs, endedAtMs].map((ms) =>
      ms === undefined ? undefined : Math.floor(ms / 1000),
    );
    const texts: Record<string, string> = {
      action,
      output: readOutput(result),
      status: state,
      created: created === undefined ? '' : formatMoment(created),
      took: created === undefined ? '' : formatBetween(created, ended ?? null),
      id,
      processed: ended === undefined ? 'not yet' : formatMoment(ended),
      payload: indent(payload),
      result: result === null ? 'none' : indent(result),
      curl: curlCommand(location.origin, readPayload(payload)),
    };
    this.element.dataset.id = id;
    for (const [name, text] of Object.entries(texts)) part(this.element, name, HTMLElement).textContent = text;
  }
}
