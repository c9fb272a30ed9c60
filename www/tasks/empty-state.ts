import { makeCopyButton } from '../shared/copy-button.ts';
import { part } from '../shared/dom.ts';
import type { View } from './address.ts';
import { isSignedIn } from './service.ts';
import type { ListedState } from './task-row.ts';

const EXAMPLE = '{"action":"uppercase","data":{"text":"hello"}}';

const TEXTS: Record<ListedState, { title: string; hint: string; curl(origin: string, header: string): string }> = {
  queued: {
    title: 'No task is waiting.',
    hint: 'Tasks appear here while all threads are busy. A thousand at once make some wait:',
    curl: (origin, header) => `for i in $(seq 1000); do curl -s ${origin}/tasks${header} -d '${EXAMPLE}' & done; wait`,
  },
  limited: {
    title: 'No task waits for a limit.',
    hint: 'A task that is due waits here while its action or its key has no room. With a limit, two of these run at once:',
    curl: (origin, header) =>
      `curl -X PUT ${origin}/limits/uppercase${header} -d '{"concurrency":2}'\ncurl '${origin}/queue/tasks?state=limited'${header}`,
  },
  scheduled: {
    title: 'No task is scheduled.',
    hint: 'A task with a delay or a time comes here until it is due:',
    curl: (origin, header) => `curl ${origin}/tasks${header} -d '${EXAMPLE.replace(/}$/, ',"delay":60}')}'`,
  },
  running: {
    title: 'No task is running.',
    hint: 'Short tasks end before they can be seen here. The same list as JSON:',
    curl: (origin, header) => `curl '${origin}/queue/tasks?state=running'${header}`,
  },
  retrying: {
    title: 'No task waits to be retried.',
    hint: 'A task whose handler throws comes here until its next attempt. The same list as JSON:',
    curl: (origin, header) => `curl '${origin}/queue/tasks?state=retrying'${header}`,
  },
  completed: {
    title: 'No task has been completed yet.',
    hint: 'Queue one with the form or with curl, and it appears here:',
    curl: (origin, header) => `curl ${origin}/tasks${header} -d '${EXAMPLE}'`,
  },
};

/** Message shown instead of an empty task list, with a curl command or a button. */
export class EmptyState {
  readonly #panel = part(document, 'empty', HTMLElement);
  readonly #title = part(this.#panel, 'empty-title', HTMLElement);
  readonly #hint = part(this.#panel, 'empty-hint', HTMLElement);
  readonly #curlPanel = part(this.#panel, 'empty-curl-panel', HTMLElement);
  readonly #curl = part(this.#panel, 'empty-curl', HTMLElement);
  readonly #byAction = part(this.#panel, 'find-action', HTMLButtonElement);
  #shown = '';

  constructor(onAction: (action: string) => void) {
    makeCopyButton(part(this.#panel, 'copy-empty-curl', HTMLButtonElement), this.#curl);
    this.#byAction.addEventListener('click', () =>
      onAction(part(this.#byAction, 'find-action-name', HTMLElement).textContent),
    );
  }

  hide(): void {
    this.#panel.hidden = true;
    this.#shown = '';
  }

  /** @param listed number of tasks before the text filter `q` is applied */
  show(state: ListedState, { q, action }: View, listed: number): void {
    const header = isSignedIn() ? ' -H "Authorization: Bearer $TOKEN"' : '';
    const key = [state, q, action, listed, header].join('\n');
    if (key === this.#shown) return;
    this.#shown = key;
    const isFiltered = action !== '' || (q !== '' && listed > 0);
    const { title, hint, curl } = TEXTS[state];
    this.#title.textContent = isFiltered ? whyNothingFits(state, { q, action }, listed) : title;
    this.#hint.textContent = isFiltered ? '' : hint;
    this.#curlPanel.hidden = isFiltered;
    this.#curl.textContent = curl(location.origin, header);
    this.#byAction.hidden = q === '' || action !== '' || state !== 'completed' || listed === 0;
    part(this.#byAction, 'find-action-name', HTMLElement).textContent = q;
    this.#panel.hidden = false;
  }
}

function whyNothingFits(state: ListedState, { q, action }: { q: string; action: string }, listed: number): string {
  if (q === '' || listed === 0) return `No ${state} task has the action “${action}”.`;
  return listed === 1 ? `The listed task does not hold “${q}”.` : `None of the ${listed} listed tasks holds “${q}”.`;
}
