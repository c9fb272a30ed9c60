import { part } from '../shared/dom.ts';
import { BoardConnection } from './board-connection.ts';
import { Charts } from './charts.ts';
import { FailedView } from './failed-view.ts';
import { FindField } from './find-field.ts';
import { Help } from './help.ts';
import { Inspector } from './inspector.ts';
import { Keys } from './keys.ts';
import { ListView } from './list-view.ts';
import { OwnTasks } from './own-tasks.ts';
import { readHistory } from './queue-history.ts';
import { Store } from './store.ts';
import { SubmitForm } from './submit-form.ts';
import { Tabs } from './tabs.ts';
import { listActions, type Submission } from './tasks-api.ts';
import { ViewState } from './view-state.ts';

const viewState = new ViewState();
const store = new Store();

// BoardConnection must be constructed before all views, because it restores the token that their requests need.
const connection = new BoardConnection(store, {
  onConnected() {
    ownTasks.checkSoon();
    charts.start();
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
  },
});

const submitForm = new SubmitForm(
  (id, submission) => ownTasks.add(id, submission),
  () => connection.signOut(),
);
const onResubmit = (submission: Submission) => submitForm.edit(submission);
const onOpen = (task: string) => viewState.change({ task });
const ownTasks = new OwnTasks(store, { onEdit: onResubmit, onOpen });
const tabs = new Tabs(store, viewState);
const find = new FindField(viewState);
const help = new Help();
const list = new ListView(store, viewState);
const charts = new Charts({ host: part(document, 'charts', HTMLElement), readHistory, store });
const failed = new FailedView({ host: part(document, 'failed', HTMLElement), store, onOpen, onResubmit });
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
  queue: () => submitForm.focus(),
  help: () => help.open(),
  show: (state) => tabs.select(state),
  moved(task) {
    if (viewState.view.task === undefined) return;
    isMoving = true;
    viewState.change({ task }, 'replace');
    isMoving = false;
  },
});

part(document, 'to-form', HTMLElement).addEventListener('click', (event) => {
  event.preventDefault();
  submitForm.focus();
});

function showView(): void {
  const { view } = viewState;
  failed.show(view.state === 'failed' ? view : undefined);
  inspector.show(view.task, { focus: !isMoving });
}

viewState.subscribe(showView);
showView();
