import { signal } from '@preact/signals';
import { addressOf } from './address.ts';
import { STATES, type State } from './board-task.ts';
import { Dialog } from './dialogs.tsx';
import { moveInspector, openAddress, view } from './navigation.ts';
import { SmallButton } from './parts.tsx';

const OFF = 'keys-off';

/** Keys with the same effect: the characters, the effect as the help says it, the action, and a name for the help if it differs from the characters. */
type Key = [keys: string, effect: string, press: (key: string, toForm: () => void) => void, name?: string];

const KEYS: readonly Key[] = [
  ['/', 'Find', focusFind],
  ['n', 'Queue a task', (_, toForm) => toForm()],
  ['jk', 'Next, previous row', (key) => move(key === 'j' ? 1 : -1)],
  ['', 'Open the row', () => {}, 'Enter'],
  ['u', 'Show new rows', () => click(document, 'data-show-unseen')],
  ['x', 'Select the row', () => click(currentRow(), 'data-select')],
  ['r', 'Redrive the selected tasks', redrive],
  ['1234567', 'Tabs', (key) => openAddress(addressOf({ state: STATES[Number(key) - 1] as State })), '1 – 7'],
  ['89', 'Schedules, limits', (key) => openAddress(addressOf({ page: key === '8' ? 'schedules' : 'limits' }))],
  ['', 'Close', () => {}, 'Esc'],
  ['?', 'This help', openHelp],
];

/** Whether single-key shortcuts are on. The user can switch them off, because speech input may type characters. */
const isOn = signal(!isStoredAsOff());
const isHelpOpen = signal(false);

/** Button that opens the list of keys. */
export function HelpButton() {
  return (
    <button
      type="button"
      class="button button-plain button-icon"
      data-part="help-button"
      aria-label="Keys"
      aria-haspopup="dialog"
      onClick={openHelp}
    >
      ?
    </button>
  );
}

/** List of the keys, while it is open. */
export function Help() {
  if (!isHelpOpen.value) return null;
  const close = () => {
    isHelpOpen.value = false;
  };
  const title = (
    <div class="row spread">
      <h2 id="help-heading">Keys</h2>
      <SmallButton onClick={close}>Close</SmallButton>
    </div>
  );
  return (
    <Dialog part="help" class="panel stack" heading="help-heading" title={title} onClose={close}>
      <dl class="facts">
        {KEYS.map(([keys, effect, , name]) => (
          <div key={effect}>
            <dt>{(name === undefined ? [...keys] : [name]).flatMap((key) => [<kbd key={key}>{key}</kbd>, ' '])}</dt>
            <dd>{effect}</dd>
          </div>
        ))}
      </dl>
      <label class="row tight">
        <input
          type="checkbox"
          checked={isOn.value}
          onChange={({ currentTarget }) => {
            isOn.value = currentTarget.checked;
            store(!currentTarget.checked);
          }}
        />{' '}
        Keys of one character
      </label>
    </Dialog>
  );
}

/** Starts to act on single-key shortcuts. @param toForm moves the focus to the form that queues a task */
export function listenToKeys(toForm: () => void): void {
  document.addEventListener('keydown', (event) => {
    const isForPage = !event.ctrlKey && !event.metaKey && !event.altKey && !event.defaultPrevented;
    if (!isForPage || isTyping(event.target) || isBehindDialog() || !isOn.value) return;
    const [, , press] = KEYS.find(([keys]) => event.key.length === 1 && keys.includes(event.key)) ?? [];
    if (press === undefined) return;
    press(event.key, toForm);
    event.preventDefault();
  });
}

function openHelp(): void {
  isHelpOpen.value = true;
}

function focusFind(): void {
  const field = document.querySelector<HTMLInputElement>('#find');
  field?.focus();
  field?.select();
}

/** Moves the focus by one row from the focused row, or from the inspected row if no row has the focus. */
function move(step: 1 | -1): void {
  const rows = visibleRows();
  const current = currentRow() ?? document.querySelector<HTMLElement>('[data-row][data-inspected]');
  const index = current === null ? -1 : rows.indexOf(current);
  const row = index < 0 ? rows[0] : rows[index + step];
  if (row === undefined) return;
  row.querySelector<HTMLElement>('[data-open]')?.focus({ preventScroll: true });
  row.scrollIntoView({ block: 'nearest' });
  if (view.value.task !== undefined) moveInspector(row.dataset.row ?? '');
}

function isStoredAsOff(): boolean {
  try {
    return localStorage.getItem(OFF) !== null;
  } catch {
    return false;
  }
}

function store(isOff: boolean): void {
  try {
    if (isOff) localStorage.setItem(OFF, '');
    else localStorage.removeItem(OFF);
  } catch {
    // The browser blocks storage, so switched-off shortcuts are on again when the page is reopened.
  }
}

function visibleRows(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>('[data-row]')].filter((row) => row.checkVisibility());
}

function currentRow(): HTMLElement | null {
  return document.activeElement?.closest<HTMLElement>('[data-row]') ?? null;
}

function redrive(): void {
  const ofSelection = document.querySelector<HTMLElement>('[data-redrive-selected]');
  if (ofSelection?.checkVisibility()) ofSelection.click();
  else click(currentRow(), 'data-redrive');
}

function click(within: ParentNode | null, attribute: string): void {
  within?.querySelector<HTMLElement>(`[${attribute}]`)?.click();
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.matches('textarea, select, input:not([type="checkbox"], [type="radio"])') || target.isContentEditable;
}

function isBehindDialog(): boolean {
  return document.querySelector('dialog:modal') !== null;
}
