import { computed, effect, untracked } from '@preact/signals';
import { part } from '../shared/dom.ts';
import { link, linkState, model } from './board.ts';
import { Charts } from './charts.tsx';
import { Questions } from './dialogs.tsx';
import { FailedView } from './failed.tsx';
import { HealthStrip } from './health-strip.tsx';
import { Inspector } from './inspector.tsx';
import { Help, listenToKeys } from './keys.tsx';
import { LIMITS } from './limits-view.tsx';
import { Masthead } from './masthead.tsx';
import { mount } from './mount.ts';
import { view } from './navigation.ts';
import { OwnTasks } from './own-tasks.tsx';
import { TimeZoneSelect } from './parts.tsx';
import { SCHEDULES } from './schedules-view.tsx';
import { SettingsList } from './settings-list.tsx';
import { Access, isAsking } from './sign-in.ts';
import { openForm, SubmitForm } from './submit-form.tsx';
import { Pages, Tabs, TITLES } from './tabs.tsx';
import { TaskListView } from './task-list.tsx';

// Restores the token that the requests of the views need.
const access = new Access((userId) => {
  link.start(userId);
  model.reload();
});

const toForm = () => openForm();

/** Tabs, and the list of the current tab. */
function Shelf() {
  const { state } = view.value;
  return (
    <>
      <nav class="tabs" data-part="tabs" aria-label="Tasks by state">
        <Tabs />
      </nav>
      {state === 'failed' ? <FailedView onResubmit={openForm} /> : <TaskListView state={state} />}
    </>
  );
}

function Settings() {
  const { page } = view.value;
  if (page === 'schedules') return <SettingsList key={page} of={SCHEDULES} />;
  return page === 'limits' && <SettingsList key={page} of={LIMITS} />;
}

function Dialogs() {
  return (
    <>
      <Inspector onResubmit={openForm} />
      <Questions />
      <Help />
    </>
  );
}

function Overview() {
  return (
    <>
      <HealthStrip />
      <Charts />
    </>
  );
}

for (const [name, shown] of Object.entries({
  pages: <Pages />,
  status: <Masthead toForm={toForm} />,
  'time-zone': <TimeZoneSelect />,
  overview: <Overview />,
  shelf: <Shelf />,
  settings: <Settings />,
  form: <SubmitForm />,
  own: <OwnTasks onEdit={openForm} />,
  dialogs: <Dialogs />,
})) {
  mount(shown, part(document, name, HTMLElement));
}

listenToKeys(toForm);

const desk = part(document, 'desk', HTMLElement);
effect(() => {
  const { page, state } = view.value;
  desk.dataset.page = page;
  document.title = `${TITLES[page === 'tasks' ? state : page]} · Tasks`;
});
effect(() => {
  desk.hidden = isAsking.value;
});

const wanted = computed(() => {
  const { state, action, cause } = view.value;
  return JSON.stringify({
    state,
    filter: { ...(action !== '' && { action }), ...(state === 'failed' && cause !== '' && { cause }) },
  });
});
effect(() => {
  const { state, filter } = JSON.parse(wanted.value);
  untracked(() => model.open(state, filter));
});

const kind = computed(() => linkState.value.kind);
effect(() => {
  document.body.dataset.connection = kind.value;
  if (kind.value === 'signed-out') access.ask();
});

for (const change of ['online', 'offline']) addEventListener(change, () => link.now());
link.start(access.userId);
