import { part } from '../shared/dom.ts';
import { BoardConnection } from './board-connection.ts';
import { FindField } from './find-field.ts';
import { Help } from './help.ts';
import { Keys } from './keys.ts';
import { ListView } from './list-view.ts';
import { OwnTasks } from './own-tasks.ts';
import { Store } from './store.ts';
import { SubmitForm } from './submit-form.ts';
import { Tabs } from './tabs.ts';
import { listActions } from './tasks-api.ts';
import { ViewState } from './view-state.ts';

const viewState = new ViewState();
const store = new Store();

const submitForm = new SubmitForm(
  (id, submission) => ownTasks.add(id, submission),
  () => connection.signOut(),
);
const ownTasks = new OwnTasks(store, {
  onEdit: (submission) => submitForm.edit(submission),
  onOpen: (task) => viewState.change({ task }),
});
const tabs = new Tabs(store, viewState);
const find = new FindField(viewState);
const help = new Help();
const list = new ListView(store, viewState);

const connection = new BoardConnection(store, {
  onConnected() {
    ownTasks.checkSoon();
    // A failed request is repeated with the next connection.
    listActions().then(
      (actions) => submitForm.offer(actions),
      () => {},
    );
  },
  onSignedIn() {
    submitForm.showCurl();
    void list.load();
  },
});

store.subscribe(() => submitForm.update({ isLive: connection.isLive, isFull: store.health?.full ?? false }));

new Keys({
  find: () => find.focus(),
  queue: () => submitForm.focus(),
  help: () => help.open(),
  show: (state) => tabs.select(state),
  moved(task) {
    // An open inspector follows the rows.
    if (viewState.view.task !== undefined) viewState.change({ task }, 'replace');
  },
});

part(document, 'to-form', HTMLElement).addEventListener('click', (event) => {
  event.preventDefault();
  submitForm.focus();
});
