import { type Signal, signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { TaskProgress } from '../client/task-state.ts';
import { CopyButton, SmallButton } from '../shared/controls.tsx';
import { readStored, store } from '../shared/stored.ts';
import { formatClock, formatMoment, formatSize, inUtc, visibleText } from './texts.ts';

const TICK_MS = 200;
/** Characters of a long text that are shown until the user asks for all. */
const SHOWN = 20_000;

export { Button, CopyButton, Icon, RadioGroup, SearchField, SmallButton } from '../shared/controls.tsx';

/** Milliseconds since the epoch, five times per second while the page is visible. */
export const now = signal(Date.now());

setInterval(() => {
  if (document.visibilityState === 'visible') now.value = Date.now();
}, TICK_MS);

/** Text that changes with the time. As time passes, only this is rendered again. */
export const Live = ({ text }: { text(nowMs: number): string }) => <>{text(now.value)}</>;

export const titleOf = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);

export const Mark = ({ state }: { state: string }) => <span class="mark" data-state={state} aria-hidden="true" />;

/** Time with its date and time zone in the tooltip. @param at milliseconds since the epoch */
export function Time({ at, isExact = false }: { at: number; isExact?: boolean }) {
  return (
    <time dateTime={new Date(at).toISOString()} title={formatMoment(at)}>
      {formatClock(at, isExact)}
    </time>
  );
}

/** Returns a choice that is off at first, and that the browser stores. */
export function storedChoice(name: string, choice = signal(false)): Signal<boolean> {
  choice.value = readStored('localStorage', name) === true;
  choice.subscribe((isOn) => store('localStorage', name, isOn || undefined));
  return choice;
}

storedChoice('utc', inUtc);

export function TimeZoneSelect() {
  return (
    <select
      class="select small theme"
      aria-label="Time zone"
      autocomplete="off"
      value={String(inUtc.value)}
      onChange={({ currentTarget }) => (inUtc.value = currentTarget.value === 'true')}
    >
      <option value="false">Local time</option>
      <option value="true">UTC</option>
    </select>
  );
}

export function Progress({ progress, label }: { progress: TaskProgress | undefined; label: string }) {
  if (progress === undefined) return null;
  const { fraction, note = '' } = progress;
  return (
    <div class="row">
      <progress max={1} value={fraction} aria-label={label} />
      <span>{Math.floor(fraction * 100)} %</span>{' '}
      <span class="quiet" data-part="progress-note">
        {visibleText(note)}
      </span>
    </div>
  );
}

interface CodeBlockProps {
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
        <div class="row spread">
          {heading}
          {button}
        </div>
      )}
      {children}
      {children ? (
        <details>
          <summary>JSON text</summary>
          {shown}
        </details>
      ) : (
        shown
      )}
      {heading === undefined && button}
    </>
  );
}

export interface FigureTableProps {
  caption: string;
  /** `data-part` of the rows. */
  part: string;
  headings: readonly string[];
  /** Cells of each row. The first one is the heading of the row. */
  rows: readonly (readonly ComponentChildren[])[];
}

export function FigureTable({ caption, part, headings, rows }: FigureTableProps) {
  return (
    <table>
      <caption class="quiet">{caption}</caption>
      <thead class="quiet">
        <tr>
          {headings.map((heading) => (
            <th key={heading} scope="col">
              {heading}
            </th>
          ))}
        </tr>
      </thead>
      <tbody data-part={part}>
        {rows.map(([name, ...figures], row) => (
          <tr key={row}>
            <th scope="row">{name}</th>
            {figures.map((figure, column) => (
              <td key={column}>{figure}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
