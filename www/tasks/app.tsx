import { effect, untracked } from '@preact/signals';
import { part } from '../shared/dom.ts';
import { addressOf } from './address.ts';
import { BoardConnection } from './board-connection.ts';
import { Charts } from './charts.ts';
import { EditDialog } from './edit-dialog.ts';
import { FailedView } from './failed-view.ts';
import { FindField } from './find-field.ts';
import { Help } from './help.ts';
import { Inspector } from './inspector.ts';
import { Keys } from './keys.ts';
import { LimitsView } from './limits-view.ts';
import { ListView } from './list-view.ts';
import { mount } from './mount.ts';
import { changeView, openAddress, view as shownView } from './navigation.ts';
import { OwnTasks } from './own-tasks.ts';
import { SchedulesView } from './schedules-view.ts';
import { listActions, queue, type Submission } from './service.ts';
import { Store } from './store.ts';
import { SubmitForm } from './submit-form.ts';
import { Pages, Tabs, TITLES } from './tabs.tsx';

const store = new Store();

// BoardConnection must be constructed before all views, because it restores the token that their requests need.
const connection = new BoardConnection(store, {
  onConnected() {
    ownTasks.checkSoon();
    charts.start();
    loadSettings();
    // After a failure, the next call of `onConnected` repeats the request.
    listActions().then(
      (actions) => submitForm.offer(actions),
      () => {},
    );
  },
  onSignedIn() {
    submitForm.showCurl();
    void list.load();
    charts.start();
    loadSettings();
  },
});

const submitForm = new SubmitForm(
  (id, submission) => ownTasks.add(id, submission),
  () => connection.signOut(),
);
const showTasks = () => {
  if (shownView.value.page !== 'tasks') openAddress('/');
};
const onResubmit = (submission: Submission) => {
  showTasks();
  submitForm.edit(submission);
};
const toForm = () => {
  showTasks();
  submitForm.focus();
};
const onOpen = (task: string) => changeView({ task });
const ownTasks = new OwnTasks(store, { onEdit: onResubmit, onOpen });
mount(<Pages />, part(document, 'pages', HTMLElement));
mount(<Tabs store={store} />, part(document, 'tabs', HTMLElement));
const find = new FindField();
const help = new Help();
const list = new ListView(store);
const charts = new Charts({ host: part(document, 'charts', HTMLElement), readHistory: queue.history, store });
const failed = new FailedView({ host: part(document, 'failed', HTMLElement), store, onOpen, onResubmit });
const dialog = new EditDialog();
const schedules = new SchedulesView(dialog);
const limits = new LimitsView(dialog);
const inspector = new Inspector({
  host: part(document, 'inspector', HTMLDialogElement),
  store,
  onClose: () => changeView({ task: undefined }),
  onResubmit,
});
/** True while the `j` or `k` key changes the inspected task, so that the focus stays on the table row. */
let isMoving = false;

store.subscribe(() => submitForm.update({ isLive: connection.isLive, isFull: store.health?.full ?? false }));

new Keys({
  find: () => find.focus(),
  queue: toForm,
  help: () => help.open(),
  show: (state) => openAddress(addressOf({ state })),
  open: (page) => openAddress(addressOf({ page })),
  moved(task) {
    if (shownView.value.task === undefined) return;
    isMoving = true;
    changeView({ task }, 'replace');
    isMoving = false;
  },
});

part(document, 'to-form', HTMLElement).addEventListener('click', (event) => {
  event.preventDefault();
  toForm();
});

// Links within the page open without loading it again.
document.addEventListener('click', (event) => {
  const link = (event.target as Element).closest<HTMLAnchorElement>('a[data-link]');
  if (link === null || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  openAddress(link.href);
});

function loadSettings(): void {
  void schedules.list.load();
  void limits.list.load();
}

function showView(): void {
  const view = shownView.value;
  const isFailed = view.state === 'failed';
  part(document, 'desk', HTMLElement).dataset.page = view.page;
  document.title = `${TITLES[view.page === 'tasks' ? view.state : view.page]} · Tasks`;
  part(document, 'list', HTMLElement).hidden = isFailed;
  part(document, 'failed', HTMLElement).hidden = !isFailed;
  if (!isFailed) part(document, 'list-heading', HTMLElement).textContent = `${TITLES[view.state]} tasks`;
  failed.show(view.page === 'tasks' && view.state === 'failed' ? view : undefined);
  schedules.list.show(view.page === 'schedules' ? view.q : undefined);
  limits.list.show(view.page === 'limits' ? view.q : undefined);
  charts.refresh();
  inspector.show(view.task, { focus: !isMoving });
}

effect(() => {
  shownView.value;
  untracked(showView);
});
