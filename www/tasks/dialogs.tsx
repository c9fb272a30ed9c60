import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { Button } from './parts.tsx';

interface DialogProps {
  part: string;
  class: string;
  heading: string;
  /** Whether a click beside the dialog leaves it open, because it holds the user's input. */
  isForm?: boolean;
  /** Whether the page can be used beside the dialog, except in a narrow window. */
  isBeside?: boolean;
  onClose(): void;
  children: ComponentChildren;
}

/** Windows that a dialog beside the page covers completely. */
const NARROW = '(max-width: 48rem)';

/** Dialog that is open while it is rendered. The focus returns to the element that had it before. */
export function Dialog({ part, class: name, heading, isForm, isBeside, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const { current } = dialog;
    if (isBeside && !matchMedia(NARROW).matches) current?.show();
    else current?.showModal();
    return () => current?.close();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the Escape key closes every dialog
    <dialog
      class={name}
      data-part={part}
      aria-labelledby={heading}
      ref={dialog}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        // The target of a click on the dialog's backdrop is the dialog element.
        if (event.target === event.currentTarget && !isForm && !isBeside) onClose();
      }}
    >
      {children}
    </dialog>
  );
}

export interface Question {
  question: string;
  warning?: string;
  consequence: string;
  yes: string;
  /** Label of the button that declines, “Keep” by default. */
  no?: string;
  paces?: readonly number[];
}

/** Confirmation of a question. `perSecond` is the chosen pace, or 0. */
type Confirmation = { perSecond: number };

const open = signal<Question & { answer(confirmation?: Confirmation): void }>();

/** Asks the user to confirm something. Resolves to undefined if the user declines. */
export function ask(question: Question): Promise<Confirmation | undefined> {
  return new Promise((resolve) => {
    open.value = {
      ...question,
      answer(confirmation) {
        open.value = undefined;
        resolve(confirmation);
      },
    };
  });
}

export function OpenQuestion() {
  const pace = useRef<HTMLSelectElement>(null);
  if (open.value === undefined) return null;
  const { question, warning, consequence, yes, no = 'Keep', paces = [], answer } = open.value;
  return (
    <Dialog part="confirmation" class="panel stack" heading="question" onClose={answer}>
      <h2 id="question">{question}</h2>
      {warning && (
        <p>
          <strong>{warning}</strong>
        </p>
      )}
      <p>{consequence}</p>
      {paces.length > 0 && (
        <label>
          Pace{' '}
          <select class="select" autocomplete="off" ref={pace}>
            <option value="0">All at once</option>
            {paces.map((perSecond) => (
              <option key={perSecond} value={perSecond}>
                {perSecond} a second
              </option>
            ))}
          </select>
        </label>
      )}
      <div class="row end">
        <Button onClick={() => answer()}>{no}</Button>
        <Button
          class="button button-danger"
          data-part="confirm"
          onClick={() => answer({ perSecond: Number(pace.current?.value ?? 0) })}
        >
          {yes}
        </Button>
      </div>
    </Dialog>
  );
}
