import { signal } from '@preact/signals';
import { addressOf } from './address.ts';
import { STATES, type State } from './board-task.ts';
import { Dialog } from './dialogs.tsx';
import { changeView, openAddress, view } from './navigation.ts';
import { SmallButton, storedChoice } from './parts.tsx';
import { openForm } from './submit-form.tsx';

/** Keys with the same effect: the characters, the effect as the help says it, the action, and a name for the help if it differs from the characters. */
type Key = [keys: string, effect: string, press: (key: string) => void, name?: string];

const isHelpOpen = signal(false);
export const openHelp = () => (isHelpOpen.value = true);

const KEYS: readonly Key[] = [
  ['/', 'Find', focusFind],
  ['n', 'Queue a task', () => openForm()],
  ['jk', 'Next, previous row', (key) => move(key === 'j' ? 1 : -1)],
  ['', 'Open the row', () => {}, 'Enter'],
  ['u', 'Show new rows', () => click(document, 'data-part="unseen"')],
  ['x', 'Select the row', () => click(currentRow(), 'data-select')],
  ['r', 'Redrive the selected tasks', redrive],
  ['1234567', 'Tabs', (key) => openAddress(addressOf({ state: STATES[Number(key) - 1] as State })), '1 – 7'],
  ['89', 'Schedules, limits', (key) => openAddress(addressOf({ page: key === '8' ? 'schedules' : 'limits' }))],
  ['', 'Close', () => {}, 'Esc'],
  ['?', 'This help', openHelp],
];

/** Whether single-key shortcuts are off. The user can switch them off, because speech input may type characters. */
const isOff = storedChoice('keys-off');

export function Help() {
  if (!isHelpOpen.value) return null;
  const close = () => (isHelpOpen.value = false);
  return (
    <Dialog part="help" class="panel stack" heading="help-heading" onClose={close}>
      <div class="row spread">
        <h2 id="help-heading">Keys</h2>
        <SmallButton onClick={close}>Close</SmallButton>
      </div>
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
          checked={!isOff.value}
          onChange={({ currentTarget }) => (isOff.value = !currentTarget.checked)}
        />{' '}
        Keys of one character
      </label>
    </Dialog>
  );
}

document.addEventListener('keydown', (event) => {
  const isForPage = !event.ctrlKey && !event.metaKey && !event.altKey && !event.defaultPrevented;
  if (!isForPage || isTyping(event.target) || isOff.value) return;
  if (document.querySelector('dialog:modal') !== null) return;
  const [, , press] = KEYS.find(([keys]) => event.key.length === 1 && keys.includes(event.key)) ?? [];
  if (press === undefined) return;
  press(event.key);
  event.preventDefault();
});

function focusFind(): void {
  const field = document.querySelector<HTMLInputElement>('#find');
  field?.focus();
  field?.select();
}

/** Moves the focus by one row from the focused row, or from the inspected row if no row has the focus. */
function move(step: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')];
  const current = currentRow() ?? document.querySelector<HTMLElement>('[data-row][data-inspected]');
  const index = current === null ? -1 : rows.indexOf(current);
  const row = index < 0 ? rows[0] : rows[index + step];
  if (row === undefined) return;
  row.querySelector<HTMLElement>('[data-open]')?.focus({ preventScroll: true });
  row.scrollIntoView({ block: 'nearest' });
  if (view.value.task !== undefined) changeView({ task: row.dataset.row }, 'replace');
}

const currentRow = (): HTMLElement | null => document.activeElement?.closest<HTMLElement>('[data-row]') ?? null;

function redrive(): void {
  const isOfSelection = document.querySelector('[data-redrive-selected]') !== null;
  click(isOfSelection ? document : currentRow(), isOfSelection ? 'data-redrive-selected' : 'data-redrive');
}

function click(within: ParentNode | null, attribute: string): void {
  within?.querySelector<HTMLElement>(`[${attribute}]`)?.click();
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.matches('textarea, select, input:not([type="checkbox"], [type="radio"])') || target.isContentEditable;
}
