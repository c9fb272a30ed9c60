import type { ButtonHTMLAttributes, ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { TaskProgress } from '../client/task-state.ts';
import { copy } from '../shared/copy-button.ts';
import { formatSize } from './amounts.ts';
import { visibleText } from './visible-text.ts';

const COPIED_MS = 2_000;
/** Characters of a long text that are shown until the user asks for all. */
const SHOWN = 20_000;

/** Mark of a task state. States differ in shape and colour. */
export function Mark({ state }: { state: string }) {
  return <span class="mark" data-state={state} aria-hidden="true" />;
}

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement>;

export function Button(props: ButtonProps) {
  return <button type="button" class="button" {...props} />;
}

export function SmallButton({ class: name = '', ...props }: ButtonProps) {
  return <button type="button" class={`button button-small ${name}`} {...props} />;
}

export function Icon({ name }: { name: 'close' }) {
  return (
    <svg class="icon" aria-hidden="true">
      <use href={`#${name}`} />
    </svg>
  );
}

/** Progress bar with the percentage and note that the handler has reported. */
export function Progress({ progress, label }: { progress: TaskProgress | undefined; label: string }) {
  if (progress === undefined) return null;
  const { fraction, note = '' } = progress;
  return (
    <div class="own-progress">
      <progress max={1} value={fraction} aria-label={label} />
      <span>{Math.floor(fraction * 100)} %</span>{' '}
      <span class="own-note quiet" data-part="progress-note">
        {visibleText(note)}
      </span>
    </div>
  );
}

export interface CodeBlockProps {
  text: string;
  /** `data-part` of the text. */
  part?: string;
  copyLabel?: string;
  heading?: ComponentChildren;
}

/** Text with a button that copies it. Only the first {@link SHOWN} characters are shown until the user asks for all. */
export function CodeBlock({ text, part, copyLabel, heading }: CodeBlockProps) {
  const pre = useRef<HTMLPreElement>(null);
  const [whole, setWhole] = useState('');
  const isCut = text.length > SHOWN && whole !== text;
  const button = <CopyButton text={text} source={pre} label={copyLabel} />;
  return (
    <>
      {heading !== undefined && (
        <div class="request-head">
          {heading}
          {button}
        </div>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: focusable for keyboard scrolling */}
      <pre class="code" tabIndex={0} data-part={part} ref={pre}>
        {visibleText(isCut ? `${text.slice(0, SHOWN)}…` : text)}
      </pre>
      {heading === undefined && button}
      {isCut && (
        <SmallButton
          onClick={() => {
            pre.current?.focus();
            setWhole(text);
          }}
        >
          Show all {formatSize(text.length)}
        </SmallButton>
      )}
    </>
  );
}

export interface CopyButtonProps {
  text: string;
  /** Element that is selected if the browser denies access to the clipboard. */
  source: { readonly current: HTMLElement | null };
  label?: string | undefined;
}

export function CopyButton({ text, source, label }: CopyButtonProps) {
  const [said, say] = useState('');
  useEffect(() => {
    const timer = said === '' ? undefined : setTimeout(() => say(''), COPIED_MS);
    return () => clearTimeout(timer);
  }, [said]);
  const onClick = async () => {
    const isCopied = source.current !== null && (await copy(text, source.current));
    say(isCopied ? 'Copied' : 'Selected: press Ctrl+C');
  };
  return (
    <SmallButton aria-label={said === '' ? label : undefined} onClick={onClick}>
      {said || 'Copy'}
    </SmallButton>
  );
}
