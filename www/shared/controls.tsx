import type { ButtonHTMLAttributes, InputHTMLAttributes, RefObject } from 'preact';
import { useEffect, useState } from 'preact/hooks';

const COPIED_MS = 2_000;

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement>;

export const Button = (props: ButtonProps) => <button type="button" class="button" {...props} />;

export function SmallButton({ class: name = '', ...props }: ButtonProps) {
  return <button type="button" class={`button button-small ${name}`} {...props} />;
}

export function SearchField(props: Omit<InputHTMLAttributes<HTMLInputElement>, 'list' | 'role' | 'type'>) {
  return <input type="search" class="input" autocomplete="off" autocapitalize="none" spellcheck={false} {...props} />;
}

/** Icon, a `<symbol>` defined in the page's HTML. */
export function Icon({ name, class: className = 'icon' }: { name: string; class?: string }) {
  return (
    <svg class={className} aria-hidden="true">
      <use href={`#${name}`} />
    </svg>
  );
}

/** Returns a handler of keys that calls `close` on Escape, unless the event's default is prevented. */
export function onEscape(close: () => void): (event: KeyboardEvent) => void {
  return (event) => {
    if (event.key !== 'Escape' || event.defaultPrevented) return;
    event.preventDefault();
    close();
  };
}

interface CopyButtonProps {
  text: string | (() => string);
  /** Element that is selected if the browser denies access to the clipboard. */
  source: RefObject<HTMLElement | null>;
  label?: string | undefined;
  children?: string;
}

export function CopyButton({ text, source, label, children = 'Copy' }: CopyButtonProps) {
  const [said, say] = useState('');
  useEffect(() => {
    const timer = said === '' ? undefined : setTimeout(() => say(''), COPIED_MS);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async () => {
    const { current: element } = source;
    try {
      await navigator.clipboard.writeText(typeof text === 'string' ? text : text());
      say('Copied');
    } catch {
      if (element !== null) getSelection()?.selectAllChildren(element);
      // The text that the user is to copy must be visible.
      element?.closest('details')?.setAttribute('open', '');
      say('Selected: press Ctrl+C');
    }
  };
  return (
    <SmallButton aria-label={said === '' ? label : undefined} onClick={() => void copy()}>
      {said || children}
    </SmallButton>
  );
}

interface RadioGroupProps<Value extends string> {
  legend: string;
  name: string;
  class?: string;
  options: readonly (readonly [Value, label: string])[];
  chosen: Value | undefined;
  onChoose(value: Value): void;
}

export function RadioGroup<Value extends string>(props: RadioGroupProps<Value>) {
  const { legend, name, class: className = '', options, chosen, onChoose } = props;
  return (
    <fieldset class={`choice ${className}`}>
      <legend class="visually-hidden">{legend}</legend>
      {options.map(([value, label]) => (
        <label key={value}>
          <input type="radio" {...{ name, value }} checked={value === chosen} onChange={() => onChoose(value)} />
          <span>{label}</span>
        </label>
      ))}
    </fieldset>
  );
}
