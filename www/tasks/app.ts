import { part } from '../shared/dom.ts';
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
import { OwnTasks } from './own-tasks.ts';
import { SchedulesView } from './schedules-view.ts';
import { listActions, queue, type Submission } from './service.ts';
import { Store } from './store.ts';
import { SubmitForm } from './submit-form.ts';
import { Tabs } from './tabs.ts';
import { addressOf, ViewState } from './view-state.ts';

const viewState = new ViewState();
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
  if (viewState.view.page !== 'tasks') viewState.open('/');
};
const onResubmit = (submission: Submission) => {
  showTasks();
  submitForm.edit(submission);
};
const toForm = () => {
  showTasks();
  submitForm.focus();
};
const onOpen = (task: string) => viewState.change({ task });
const ownTasks = new OwnTasks(store, { onEdit: onResubmit, onOpen });
const tabs = new Tabs(store, viewState);
const find = new FindField(viewState);
const help = new Help();
const list = new ListView(store, viewState);
const charts = new Charts({ host: part(document, 'charts', HTMLElement), readHistory: queue.history, store });
const failed = new FailedView({ host: part(document, 'failed', HTMLElement), store, onOpen, onResubmit });
const dialog = new EditDialog();
const schedules = new SchedulesView(dialog);
const limits = new LimitsView(dialog);
const inspector = new Inspector({
  host: part(document, 'inspector', HTMLDialogElement),
  store,
  onClose: () => viewState.change({ task: undefined }),
  onResubmit,
});
/** True while the `j` or `k` key changes the inspected task, so that the focus stays on the table row. */
let isMoving = false;

store.subscribe(() => submitForm.update({ isLive: connection.isLive, isFull: store.health?.full ?? false }));

new Keys({
  find: () => find.focus(),
  queue: toForm,
  help: () => help.open(),
  show: (state) => tabs.select(state),
  open: (page) => viewState.open(addressOf({ page })),
  moved(task) {
    if (viewState.view.task === undefined) return;
    isMoving = true;
    viewState.change({ task }, 'replace');
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
  viewState.open(link.href);
});

function loadSettings(): void {
  void schedules.list.load();
  void limits.list.load();
}

function showView(): void {
  const { view } = viewState;
  failed.show(view.page === 'tasks' && view.state === 'failed' ? view : undefined);
  schedules.list.show(view.page === 'schedules' ? view.q : undefined);
  limits.list.show(view.page === 'limits' ? view.q : undefined);
  charts.refresh();
  inspector.show(view.task, { focus: !isMoving });
}

viewState.subscribe(showView);
showView();
