import { part } from '../shared/dom.ts';
import { BoardConnection } from './board-connection.ts';
import type { State } from './board-task.ts';
import { OwnTasks } from './own-tasks.ts';
import { Store } from './store.ts';
import { SubmitForm } from './submit-form.ts';
import { TaskList } from './task-list.ts';
import { listActions } from './tasks-api.ts';

const filter = part(document, 'filter', HTMLFieldSetElement);
const search = part(document, 'search', HTMLInputElement);
const pauseButton = part(document, 'pause', HTMLButtonElement);

const store = new Store();
const taskList = new TaskList();
const ownTasks = new OwnTasks(() => connection.now());
let paused = false;
/** Whether own tasks are being read. */
let reading = false;

const submitForm = new SubmitForm(
  (id, submission) => ownTasks.add(id, submission),
  () => connection.signOut(),
);

const connection = new BoardConnection(store, {
  onConnected: () => void listActions().then((actions) => submitForm.offer(actions), ignore),
  onSignedIn: () => submitForm.showCurl(),
});

store.subscribe(() => {
  if (!paused) taskList.show(store.tasks(selectedState()), selectedState());
  submitForm.update({ isLive: connection.isLive, isFull: store.health?.full ?? false });
  void readOwnTasks();
});

async function readOwnTasks(): Promise<void> {
  if (reading) return;
  reading = true;
  await ownTasks.refresh().catch(ignore);
  reading = false;
}

function selectedState(): State {
  const status = filter.querySelector<HTMLInputElement>('input:checked')?.value;
  return status === 'pending' ? 'queued' : 'completed';
}

function load(): void {
  void store.load(selectedState()).catch(ignore);
}

/** Ignores an error of a request that is sent again after the next answer of `GET /queue`. */
function ignore(): void {}

filter.addEventListener('change', load);
search.addEventListener('input', () => {
  taskList.search = search.value;
});
pauseButton.addEventListener('click', () => {
  paused = !paused;
  document.body.toggleAttribute('data-paused', paused);
  part(pauseButton, 'pause-label', HTMLElement).textContent = paused ? 'Resume' : 'Pause';
  store.requestRender();
});
load();
