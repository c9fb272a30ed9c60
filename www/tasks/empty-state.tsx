import { isFiltered } from './address.ts';
import type { State } from './board-task.ts';
import { changeView, view } from './navigation.ts';
import { Button, CodeBlock } from './parts.tsx';
import { tokenOption } from './service.ts';

const EXAMPLE = '{"action":"uppercase","data":{"text":"hello"}}';

/** What the list of a state says if it is empty, with a command in which `URL` is the address of the service. */
const TEXTS: Record<State, [title: string, hint: string, curl: string]> = {
  queued: [
    'No task is waiting.',
    'Tasks appear here while all threads are busy. A thousand at once make some wait:',
    `for i in $(seq 1000); do curl -s URL/tasks -d '${EXAMPLE}' & done; wait`,
  ],
  limited: [
    'No task waits for a limit.',
    'A task that is due waits here while its action or its key has no room. With a limit, two of these run at once:',
    `curl -X PUT URL/limits/uppercase -d '{"concurrency":2}'\ncurl 'URL/queue/tasks?state=limited'`,
  ],
  scheduled: [
    'No task is scheduled.',
    'A task with a delay or a time comes here until it is due:',
    `curl URL/tasks -d '${EXAMPLE.replace(/}$/, ',"delay":60}')}'`,
  ],
  running: [
    'No task is running.',
    'Short tasks end before they can be seen here. The same list as JSON:',
    `curl 'URL/queue/tasks?state=running'`,
  ],
  retrying: [
    'No task waits to be retried.',
    'A task whose handler throws comes here until its next attempt. The same list as JSON:',
    `curl 'URL/queue/tasks?state=retrying'`,
  ],
  failed: [
    'No task has failed',
    'A task fails after its last attempt (the fifth, unless its action sets another number), or at once with a permanent error. It stays here until it is redriven or purged. This one fails:',
    `curl URL/tasks -d '{"action":"sum","data":{"numbers":["one"]}}'`,
  ],
  completed: [
    'No task has been completed yet.',
    'Queue one with the form or with curl, and it appears here:',
    `curl URL/tasks -d '${EXAMPLE}'`,
  ],
};

export function EmptyState({ state }: { state: State }) {
  const [title, hint, curl] = TEXTS[state];
  const command = curl.replaceAll('curl', `curl${tokenOption()}`).replaceAll('URL', location.origin);
  const hasFilter = isFiltered(view.value);
  return (
    <div class="empty stack pad" data-part="empty">
      <p class="empty-title strong">{hasFilter ? `No ${state} task matches.` : title}</p>
      {hasFilter ? (
        <Button data-part="show-all" onClick={() => changeView({ q: '', action: '', cause: '', last: '' })}>
          Show all
        </Button>
      ) : (
        <>
          <p class="quiet">{hint}</p>
          <div class="row">
            <CodeBlock text={command} part="empty-curl" />
          </div>
        </>
      )}
    </div>
  );
}
