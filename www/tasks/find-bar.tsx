import { useLayoutEffect, useRef } from 'preact/hooks';
import { keysOf } from '../shared/keys-of.ts';
import { MAX_FIND_LENGTH, SPANS } from './address.ts';
import { changeView, view } from './navigation.ts';
import { RadioGroup, SearchField, SmallButton } from './parts.tsx';
import { visibleText } from './texts.ts';

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Search field of the list that is shown, and the filters by time and action. A text filters the list, and a task id opens the task. */
export function FindBar() {
  const { page, state, q, action, last } = view.value;
  const field = useRef<HTMLInputElement>(null);
  // Before the browser paints, so that nobody sees or edits the text of an earlier view. A space at the end stays.
  useLayoutEffect(() => {
    if (field.current !== null && field.current.value.trim() !== q) field.current.value = q;
  }, [q]);
  return (
    <>
      <search class="grow">
        <form onSubmit={(event) => event.preventDefault()}>
          <label class="visually-hidden" for="find">
            Find in this list, or open a task by its id
          </label>
          <SearchField
            id="find"
            data-part="find"
            maxLength={MAX_FIND_LENGTH}
            placeholder={page === 'tasks' ? 'Find text, id, key:…' : 'Find text'}
            aria-keyshortcuts="/"
            ref={field}
            onInput={(event) => find(event.currentTarget)}
          />
        </form>
      </search>
      {page === 'tasks' && (
        <RadioGroup
          legend={state === 'failed' ? 'Failed within' : 'Accepted within'}
          name="last"
          options={[['', 'Any time'], ...keysOf(SPANS).map((span) => [span, span] as const)]}
          chosen={last}
          onChoose={(last) => changeView({ last })}
        />
      )}
      {action !== '' && (
        <SmallButton class="action-chip" data-part="action-chip" onClick={() => changeView({ action: '' })}>
          <span class="quiet">Action</span> <bdi class="truncate">{visibleText(action)}</bdi>{' '}
          <span aria-hidden="true">×</span>
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
