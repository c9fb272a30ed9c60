import type { ButtonHTMLAttributes, ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { TaskProgress } from '../client/task-state.ts';
import { copy } from '../shared/copy-button.ts';
import { formatClock, formatMoment, formatSize, inUtc } from './amounts.ts';
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

/** Time with its date and time zone in the tooltip. @param at milliseconds since the epoch */
export function Time({ at, isExact = false }: { at: number; isExact?: boolean }) {
  return (
    <time dateTime={new Date(at).toISOString()} title={formatMoment(at)}>
      {formatClock(at, isExact)}
    </time>
  );
}

try {
  inUtc.value = localStorage.getItem('utc') === 'true';
} catch {
  // The browser blocks storage, so no choice is stored.
}

/** Selects the time zone of all times of the page. */
export function TimeZoneSelect() {
  return (
    <select
      class="select theme"
      aria-label="Time zone"
      autocomplete="off"
      value={String(inUtc.value)}
      onChange={({ currentTarget }) => {
        inUtc.value = currentTarget.value === 'true';
        try {
          localStorage.setItem('utc', currentTarget.value);
        } catch {
          // The browser blocks storage, so the choice lasts only until the page is closed.
        }
      }}
    >
      <option value="false">Local time</option>
      <option value="true">UTC</option>
    </select>
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
  /** Other form of the text, in place of which the text is folded. */
  children?: ComponentChildren;
}

/** Text with a button that copies it. Only the first {@link SHOWN} characters are shown until the user asks for all. */
export function CodeBlock({ text, part, copyLabel, heading, children }: CodeBlockProps) {
  const pre = useRef<HTMLPreElement>(null);
  const [whole, setWhole] = useState('');
  const isCut = text.length > SHOWN && whole !== text;
  const button = <CopyButton text={text} source={pre} label={copyLabel} />;
  const shown = (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: focusable for keyboard scrolling */}
      <pre class="code" tabIndex={0} data-part={part} ref={pre}>
        {visibleText(isCut ? `${text.slice(0, SHOWN)}…` : text)}
      </pre>
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
  return (
    <>
      {heading !== undefined && (
        <div class="request-head">
          {heading}
          {button}
        </div>
      )}
      {children ? (
        <>
          {children}
          <details>
            <summary>JSON text</summary>
            {shown}
          </details>
        </>
      ) : (
        shown
      )}
      {heading === undefined && button}
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
    // The text that the user is to copy must be visible.
    if (!isCopied) source.current?.closest('details')?.setAttribute('open', '');
    say(isCopied ? 'Copied' : 'Selected: press Ctrl+C');
  };
  return (
    <SmallButton aria-label={said === '' ? label : undefined} onClick={onClick}>
      {said || 'Copy'}
    </SmallButton>
  );
}
