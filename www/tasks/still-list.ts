import type { RefObject } from 'preact';
import { useEffect, useReducer, useRef, useState } from 'preact/hooks';

/** Milliseconds for which a list stays still after the pointer has left, so that the user can reach its buttons. */
const POINTER_GRACE_MS = 600;
/** Pixels by which the pointer may move during a click. */
const CLICK_SLOP = 6;
/** Rows before the visible ones, and rows by which the window moves. */
const OVERSCAN = 20;
const STEP = 20;
/** Lists up to this length are rendered whole. */
const MAX_ROWS = 120;
/** Rows that are rendered at once when a list is opened, so that the page can react to input before the next ones. */
const ROWS_AT_ONCE = 40;

interface StillOptions {
  /** Element that contains the list. The list stays still while the user is at an element marked as `data-hold`. */
  host: RefObject<HTMLElement | null>;
  /** Names the list's content. Another key shows the new content at once. */
  key: string;
  ids: readonly string[];
  /** Whether an id stays in the list although `ids` no longer contains it. */
  isPinned(id: string): boolean;
  /** Whether the list stays still for another reason. */
  isHeld: boolean;
  /** Whether not even the end of the list may change. */
  isPaused: boolean;
}

export interface StillList {
  ids: readonly string[];
  unseen: number;
  isHeld: boolean;
  /** Shows the current ids, although the list stays still. */
  show(): void;
}

/**
 * Keeps the rows of a list in place while the pointer, the focus or a text selection is at the list, or a dialog is
 * open that was opened from the list. So a click hits the row that the user has aimed at.
 */
export function useStillList({ host, key, ids, isPinned, isHeld, isPaused }: StillOptions): StillList {
  const [, render] = useReducer((renderings: number) => renderings + 1, 0);
  const shown = useRef({ key: '', ids: [] as readonly string[], isHeld: false });
  const isPointed = useRef(false);
  const isAt = (node: EventTarget | Node | null | undefined) => {
    const element = node instanceof Element ? node : node instanceof Node ? node.parentElement : null;
    return element !== null && host.current?.contains(element) === true && element.closest('[data-hold]') !== null;
  };
  const isUsed = () => {
    const selection = getSelection();
    // A clicked button has the focus, too, but the user is no longer there once the pointer has left.
    const focused = document.activeElement;
    if (isPointed.current || (isAt(focused) && focused?.matches(':focus-visible'))) return true;
    if (selection?.isCollapsed === false && isAt(selection.anchorNode)) return true;
    return shown.current.isHeld && document.querySelector('dialog:modal') !== null;
  };
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const update = () => {
      if (isUsed() !== shown.current.isHeld) render(undefined as never);
    };
    const point = (isNear: boolean) => {
      clearTimeout(timer);
      if (isNear) isPointed.current = true;
      else
        timer = setTimeout(() => {
          isPointed.current = false;
          update();
        }, POINTER_GRACE_MS);
      update();
    };
    let pressed: { control: HTMLElement | null; x: number; y: number } | undefined;
    const press = ({ target, clientX: x, clientY: y }: PointerEvent) => {
      point(isAt(target));
      const control = isAt(target) ? (target as Element).closest<HTMLElement>('button, a, label, [data-row]') : null;
      pressed = { control, x, y };
    };
    /** Lets a click act on the element under the pressed pointer, although the page has moved since. */
    const click = (event: MouseEvent) => {
      const { control, x, y } = pressed ?? {};
      pressed = undefined;
      if (!event.isTrusted || !control?.isConnected || control.contains(event.target as Node)) return;
      const isDrag = Math.hypot(event.clientX - (x ?? 0), event.clientY - (y ?? 0)) > CLICK_SLOP;
      if (isDrag || getSelection()?.isCollapsed === false) return;
      event.stopPropagation();
      event.preventDefault();
      control.click();
    };
    const over = new AbortController();
    const options = { capture: true, signal: over.signal };
    document.addEventListener('pointerover', ({ target }) => point(isAt(target)), options);
    document.addEventListener('pointerdown', press, options);
    document.addEventListener('click', click, options);
    // A touch ends without a pointer that rests anywhere.
    document.addEventListener('pointerup', ({ pointerType }) => pointerType === 'touch' && point(false), options);
    document.addEventListener('focusin', update, options);
    document.addEventListener('focusout', () => queueMicrotask(update), options);
    document.addEventListener('selectionchange', update, options);
    document.addEventListener('pointerleave', () => point(false), options);
    return () => {
      clearTimeout(timer);
      over.abort();
    };
  }, []);
  const { current } = shown;
  const isStill = current.key === key && current.ids.length > 0;
  const isInUse = isUsed();
  if (!isStill) current.ids = ids;
  else if (!(isHeld || isPaused || isInUse)) current.ids = withPinned(ids, current.ids, isPinned);
  else if (!isPaused) current.ids = withEnd(current.ids, ids);
  Object.assign(current, { key, isHeld: isInUse });
  const known = new Set(current.ids);
  return {
    ids: current.ids,
    unseen: ids.reduce((sum, id) => (known.has(id) ? sum : sum + 1), 0),
    isHeld: isHeld || isPaused || isInUse,
    show() {
      current.ids = withPinned(ids, current.ids, isPinned);
      render(undefined as never);
    },
  };
}

/** Appends the ids behind the last shown one, such as those of older tasks, because that moves no row. */
function withEnd(shown: readonly string[], ids: readonly string[]): readonly string[] {
  const last = ids.lastIndexOf(shown.at(-1) as string);
  if (last < 0 || last === ids.length - 1) return shown;
  return [...new Set([...shown, ...ids.slice(last + 1)])];
}

/** Inserts the pinned and the focused ones of the earlier ids into `ids`, at their earlier positions. */
function withPinned(ids: readonly string[], earlier: readonly string[], isPinned: (id: string) => boolean) {
  const focused = document.activeElement?.closest<HTMLElement>('[data-row]')?.dataset.row;
  const pinned = earlier.flatMap((id, index) => (id === focused || isPinned(id) ? [{ id, index }] : []));
  if (pinned.length === 0) return ids;
  const order = [...ids];
  for (const { id, index } of pinned) if (!ids.includes(id)) order.splice(Math.min(index, order.length), 0, id);
  return order;
}

/**
 * Selects the rows near the visible part of a long list. `above` and `below` are the heights of the others in pixels.
 *
 * @param list element whose children are the rendered rows
 */
export function useRowWindow(count: number, list: RefObject<HTMLElement | null>) {
  const [from, setFrom] = useState(0);
  const [most, setMost] = useState(ROWS_AT_ONCE);
  const rowHeight = useRef(0);
  const isWhole = count <= MAX_ROWS;
  useEffect(() => {
    if (most >= Math.min(count, MAX_ROWS)) return undefined;
    const timer = setTimeout(() => setMost(most + ROWS_AT_ONCE), 0);
    return () => clearTimeout(timer);
  }, [most, count]);
  useEffect(() => {
    if (isWhole) {
      setFrom(0);
      return undefined;
    }
    const update = () => {
      const rows = list.current?.querySelectorAll<HTMLElement>('[data-row]');
      const [first, last] = [rows?.[0], rows?.[rows.length - 1]];
      if (rows === undefined || first === undefined || last === undefined) return;
      const [{ top }, { bottom }] = [first.getBoundingClientRect(), last.getBoundingClientRect()];
      rowHeight.current = (bottom - top) / rows.length;
      const start = (list.current as HTMLElement).getBoundingClientRect().top;
      const visible = Math.floor(-start / rowHeight.current);
      setFrom(Math.min(Math.max(0, Math.floor((visible - OVERSCAN) / STEP) * STEP), count - 1));
    };
    update();
    const over = new AbortController();
    const { signal } = over;
    addEventListener('scroll', update, { passive: true, signal });
    addEventListener('resize', update, { signal });
    return () => over.abort();
  }, [isWhole, count]);
  // `from` is still that of the longer list when a list becomes short.
  const first = isWhole ? 0 : from;
  const to = Math.min(first + Math.min(most, MAX_ROWS), count);
  return { from: first, to, above: first * rowHeight.current, below: (count - to) * rowHeight.current };
}
