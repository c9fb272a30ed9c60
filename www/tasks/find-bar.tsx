import { useEffect, useRef } from 'preact/hooks';
import { changeView, view } from './navigation.ts';
import { SmallButton } from './parts.tsx';
import { visibleText } from './visible-text.ts';

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** List that has the search field: the one that is shown. */
type Place = 'list' | 'failed' | 'schedules' | 'limits';

/** Search field of the list `place` and the filter by action. A text filters the list, and a task id opens the task. */
export function FindBar({ place }: { place: Place }) {
  const { page, state, q, action } = view.value;
  const field = useRef<HTMLInputElement>(null);
  const isShown = place === (page !== 'tasks' ? page : state === 'failed' ? 'failed' : 'list');
  useEffect(() => {
    const write = () => {
      const { value } = view;
      if (field.current !== null && field.current.value.trim() !== value.q) field.current.value = value.q;
    };
    write();
    // Browsers may restore an earlier text of the search field after a reload and from the back/forward cache.
    addEventListener('pageshow', write);
    return () => removeEventListener('pageshow', write);
  }, [q, isShown]);
  if (!isShown) return null;
  return (
    <>
      <search class="find">
        <form onSubmit={(event) => event.preventDefault()}>
          <label class="visually-hidden" for="find">
            Find in this list, or open a task by its id
          </label>
          <input
            class="input"
            id="find"
            type="search"
            data-part="find"
            autocomplete="off"
            autocapitalize="none"
            spellcheck={false}
            maxLength={200}
            placeholder="Find text, or paste an id"
            aria-keyshortcuts="/"
            ref={field}
            onInput={(event) => find(event.currentTarget)}
          />
        </form>
      </search>
      {action !== '' && (
        <SmallButton class="action-chip" data-part="action-chip" onClick={() => changeView({ action: '' })}>
          <span class="quiet">Action</span> <bdi>{visibleText(action)}</bdi> <span aria-hidden="true">×</span>
          <span class="visually-hidden">: show all actions</span>
        </SmallButton>
      )}
    </>
  );
}

function find(field: HTMLInputElement): void {
  const text = field.value.trim();
  if (ID.test(text)) {
    field.value = '';
    changeView({ task: text.toLowerCase(), q: '' });
  } else changeView({ q: text }, 'replace');
}
