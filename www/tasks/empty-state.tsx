import { isFiltered } from './address.ts';
import type { State } from './board-task.ts';
import { changeView, view } from './navigation.ts';
import { Button, CodeBlock } from './parts.tsx';
import { isSignedIn } from './service.ts';

const EXAMPLE = '{"action":"uppercase","data":{"text":"hello"}}';

const TEXTS: Record<State, { title: string; hint: string; curl(origin: string, header: string): string }> = {
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
  failed: {
    title: 'No task has failed',
    hint: 'A task fails after its last attempt (the fifth, unless its action sets another number), or at once with a permanent error. It stays here until it is redriven or purged. This one fails:',
    curl: (origin, header) => `curl ${origin}/tasks${header} -d '{"action":"sum","data":{"numbers":["one"]}}'`,
  },
  completed: {
    title: 'No task has been completed yet.',
    hint: 'Queue one with the form or with curl, and it appears here:',
    curl: (origin, header) => `curl ${origin}/tasks${header} -d '${EXAMPLE}'`,
  },
};

/** Message shown instead of an empty task list, with a curl command unless there is a filter. */
export function EmptyState({ state }: { state: State }) {
  const { title, hint, curl } = TEXTS[state];
  if (isFiltered(view.value)) {
    return (
      <div class="empty stack pad" data-part="empty">
        <p class="empty-title strong" data-part="empty-title">
          No {state} task matches.
        </p>
        <Button data-part="show-all" onClick={() => changeView({ q: '', action: '', cause: '', last: '' })}>
          Show all
        </Button>
      </div>
    );
  }
  const header = isSignedIn() ? ' -H "Authorization: Bearer $TOKEN"' : '';
  return (
    <div class="empty stack pad" data-part="empty">
      <p class="empty-title strong" data-part="empty-title">
        {title}
      </p>
      <p class="quiet">{hint}</p>
      <div class="row">
        <CodeBlock text={curl(location.origin, header)} part="empty-curl" />
      </div>
    </div>
  );
}
