import { type Connection, ConnectionPill, secondsUntil } from '../shared/connection-pill.ts';
import { part } from '../shared/dom.ts';
import { TaskEvents } from './event-stream.ts';
import { OwnTasks } from './own-tasks.ts';
import { Poller, type PollState } from './poller.ts';
import { Access } from './sign-in.ts';
import { SubmitForm } from './submit-form.ts';
import { TaskList } from './task-list.ts';
import { listActions, listTasks } from './tasks-api.ts';

const filter = part(document, 'filter', HTMLFieldSetElement);
const search = part(document, 'search', HTMLInputElement);
const pauseButton = part(document, 'pause', HTMLButtonElement);
const retry = part(document, 'retry', HTMLButtonElement);

const pill = new ConnectionPill();
const ownTasks = new OwnTasks(() => poller.now());
const taskList = new TaskList();
let paused = false;
/** Whether the form offers the service's current actions. */
let offered = false;
/** Whether to show the next listing even if updates are paused. Set when the user changes the filter or signs in. */
let asked = false;

const poller = new Poller({
  async look() {
    const status = selectedStatus();
    const rows = await listTasks(status);
    if (status === selectedStatus() && (asked || !paused)) {
      asked = false;
      taskList.show(rows, status);
    }
    await ownTasks.refresh();
    if (!offered) {
      submitForm.offer(await listActions());
      offered = true;
    }
  },
  expecting: () => ownTasks.open,
  hinted: () => events.live,
  onState(state) {
    retry.hidden = state.kind === 'live' || state.kind === 'signed-out';
    pill.show(connection(state));
    // The service may have been restarted with other actions.
    if (state.kind !== 'live') offered = false;
    document.body.dataset.connection = state.kind;
    const unseen = document.visibilityState === 'hidden';
    if (unseen && state.kind === 'live' && !ownTasks.open) {
      poller.stop();
      events.close();
    } else if (state.kind === 'live') {
      events.open();
    } else if (state.kind === 'signed-out') {
      events.close();
      access.ask();
    }
  },
});

const events = new TaskEvents({
  onChange: () => poller.hint(),
  onState: (id, state) => ownTasks.report(id, state),
});

const submitForm = new SubmitForm(
  (id, submission) => {
    ownTasks.add(id, submission);
    poller.now();
  },
  () => poller.now(),
);

const access = new Access(() => {
  submitForm.showCurl();
  asked = true;
  poller.now();
});

function connection(state: PollState): Connection {
  switch (state.kind) {
    case 'live':
      return { kind: 'live', text: () => 'Connected', announcement: 'Connected' };
    case 'signed-out':
      return { kind: 'signed-out', text: () => 'Signed out', announcement: 'Signed out' };
    case 'failing': {
      const text = () => `Service answers: ${state.error}`;
      return { kind: 'failing', text, announcement: `The service answers: ${state.error}` };
    }
    case 'reconnecting': {
      const text = () => `Unreachable, retry in ${secondsUntil(state.at)} s`;
      return { kind: 'reconnecting', text, announcement: 'The service cannot be reached' };
    }
  }
}

function selectedStatus(): string {
  return filter.querySelector<HTMLInputElement>('input:checked')?.value ?? '';
}

filter.addEventListener('change', () => {
  asked = true;
  poller.now();
});
search.addEventListener('input', () => {
  taskList.search = search.value;
});
pauseButton.addEventListener('click', () => {
  paused = !paused;
  document.body.toggleAttribute('data-paused', paused);
  part(pauseButton, 'pause-label', HTMLElement).textContent = paused ? 'Resume' : 'Pause';
  if (!paused) poller.now();
});
retry.addEventListener('click', () => poller.now());
addEventListener('online', () => poller.now());
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') poller.now();
});

poller.now();
