import { part, stamp } from '../shared/dom.ts';
import { makeCopyButton } from './copy-button.ts';
import { curlCommand } from './curl.ts';
import { formatBetween, formatMoment } from './durations.ts';
import { indent, readOutput, readPayload } from './json-text.ts';
import type { TaskRow } from './tasks-api.ts';

/** List item for one stored task, with a summary line and details. */
export class TaskItem {
  readonly element = stamp('task-item');
  #shown = '';

  constructor() {
    const details = part(this.element, 'details', HTMLDetailsElement);
    makeCopyButton(part(details, 'copy-curl', HTMLButtonElement), part(details, 'curl', HTMLElement));
  }

  show(row: TaskRow): void {
    const version = JSON.stringify(row);
    if (version === this.#shown) return;
    this.#shown = version;
    const submission = readPayload(row.payload);
    const texts: Record<string, string> = {
      action: submission.action,
      output: readOutput(row.result),
      status: row.status,
      created: formatMoment(row.created_at),
      took: formatBetween(row.created_at, row.processed_at),
      id: row.id,
      processed: row.processed_at === null ? 'not yet' : formatMoment(row.processed_at),
      payload: indent(row.payload),
      result: row.result === null ? 'none' : indent(row.result),
      curl: curlCommand(location.origin, submission),
    };
    this.element.dataset.id = row.id;
    for (const [name, text] of Object.entries(texts)) part(this.element, name, HTMLElement).textContent = text;
  }
}
