import { type ReadonlySignal, signal } from '@preact/signals';
import { addressOf, readView, type View } from './address.ts';

const current = signal(readView(location.search));
let lastEntry: 'push' | 'replace' = 'push';

/** Current view of the page, stored in the URL's query so that links and the browser's history restore it. */
export const view: ReadonlySignal<View> = current;

addEventListener('popstate', () => {
  lastEntry = 'push';
  current.value = readView(location.search);
});

/** Changes the view. @param entry whether to add a browser history entry or to replace the current entry */
export function changeView(fields: Partial<View>, entry: 'push' | 'replace' = 'push'): void {
  const changed = { ...current.value, ...fields };
  const address = addressOf(changed);
  if (address === addressOf(current.value)) return;
  if (entry === 'push') history.pushState(null, '', address);
  else history.replaceState(null, '', address);
  lastEntry = entry;
  current.value = changed;
}

/** Shows the view of an address of this page, with the time range of the current view. */
export function openAddress(address: string): void {
  changeView({ ...readView(new URL(address, location.href).search), range: current.value.range });
}

/** Opens a link within the page without loading it again, unless the user opens it in another tab. */
export function followLink(event: MouseEvent): void {
  if (opensElsewhere(event)) return;
  event.preventDefault();
  openAddress((event.currentTarget as HTMLAnchorElement).href);
}

export const opensElsewhere = ({ ctrlKey, metaKey, shiftKey }: MouseEvent): boolean => ctrlKey || metaKey || shiftKey;

export const isReplaced = (): boolean => lastEntry === 'replace';
