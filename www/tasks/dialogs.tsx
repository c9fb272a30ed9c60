import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { now } from './clock.ts';
import { openQuestion } from './confirmation.ts';
import { Button, SmallButton } from './parts.tsx';
import { asked, confirm, pending, questionOf, said, undo } from './undoable.ts';

interface DialogProps {
  part: string;
  class: string;
  heading: string;
  title: ComponentChildren;
  /** Whether a click beside the dialog leaves it open, because it holds the user's input. */
  isForm?: boolean;
  onClose(): void;
  children: ComponentChildren;
}

/** Modal dialog that is open while it is rendered. The focus returns to the element that had it before. */
export function Dialog({ part, class: name, heading, title, isForm, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const { current } = dialog;
    current?.showModal();
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
        if (event.target === event.currentTarget && !isForm) onClose();
      }}
    >
      {title}
      {children}
    </dialog>
  );
}

interface AskProps {
  part: string;
  question: string;
  children: ComponentChildren;
  yes: string;
  no: string;
  onYes(): void;
  onNo(): void;
}

function Ask({ part, question, children, yes, no, onYes, onNo }: AskProps) {
  const title = <h2 id={`${part}-question`}>{question}</h2>;
  return (
    <Dialog part={part} class="purge-dialog panel" heading={`${part}-question`} title={title} onClose={onNo}>
      {children}
      <div class="purge-buttons">
        <Button onClick={onNo}>{no}</Button>
        <button type="button" class="button button-danger" data-part="purge-confirm" onClick={onYes}>
          {yes}
        </button>
      </div>
    </Dialog>
  );
}

/** Dialogs that ask for a confirmation, and the notice of a redrive or purge that can be undone. */
export function Questions() {
  const { value: deed } = asked;
  const { value: other } = openQuestion;
  const about = deed && questionOf(deed);
  return (
    <>
      {about !== undefined && (
        <Ask
          part="purge-dialog"
          question={about.question}
          yes={about.title}
          no="Keep"
          onYes={confirm}
          onNo={() => {
            asked.value = undefined;
          }}
        >
          {about.cause !== '' && (
            <p>
              <strong>{about.cause}</strong>
            </p>
          )}
          <p>{about.consequence}</p>
        </Ask>
      )}
      {other !== undefined && (
        <Ask
          part="confirmation"
          question={other.question}
          yes={other.yes}
          no={other.no}
          onYes={() => other.answer(true)}
          onNo={() => other.answer(false)}
        >
          <p>{other.consequence}</p>
        </Ask>
      )}
      <UndoNotice />
    </>
  );
}

function UndoNotice() {
  const isPending = pending.value !== undefined;
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (isPending) button.current?.focus();
  }, [pending.value]);
  return (
    <div class="purge-notice" data-part="purge-notice" hidden={said.value === ''}>
      <p role="status" data-part="purge-text">
        {said}
      </p>
      <Countdown />
      {isPending && (
        <SmallButton data-part="purge-undo" ref={button} onClick={undo}>
          Undo
        </SmallButton>
      )}
    </div>
  );
}

function Countdown() {
  now.value;
  const { value } = pending;
  const seconds = value && Math.max(Math.ceil((value.sendAt - performance.now()) / 1_000), 0);
  return (
    <span class="purge-countdown" aria-hidden="true">
      {seconds === undefined ? '' : `${seconds} s`}
    </span>
  );
}
