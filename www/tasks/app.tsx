import { computed, effect, untracked } from '@preact/signals';
import { render } from 'preact';
import { part } from '../shared/dom.ts';
import { Activity } from './activity.tsx';
import { link, linkState, model, situation } from './board.ts';
import { Charts } from './charts.tsx';
import { OpenQuestion } from './dialogs.tsx';
import { HealthStrip } from './health-strip.tsx';
import { Inspector } from './inspector.tsx';
import { Help, listenToKeys } from './keys.tsx';
import { LIMITS } from './limits-view.tsx';
import { Masthead } from './masthead.tsx';
import { view } from './navigation.ts';
import { OwnTasks } from './own-tasks.tsx';
import { TimeZoneSelect } from './parts.tsx';
import { SCHEDULES } from './schedules-view.tsx';
import { SettingsList } from './settings-list.tsx';
import { Access, isAsking } from './sign-in.ts';
import { isFolded, openForm, SubmitForm } from './submit-form.tsx';
import { Pages, Tabs, TITLES } from './tabs.tsx';
import { TaskListView } from './task-list.tsx';
import { UndoNotice } from './undoable.tsx';

// Restores the token that the requests of the views need.
const access = new Access((userId) => {
  link.start(userId);
  model.reload();
});

const toForm = () => openForm();

/** Tabs, and the list of the current tab. */
function Shelf() {
  const { page, state } = view.value;
  if (page !== 'tasks') return null;
  return (
    <>
      <nav class="tabs" data-part="tabs" aria-label="Tasks by state">
        <Tabs />
      </nav>
      <TaskListView state={state} onResubmit={openForm} />
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
      <OpenQuestion />
      <UndoNotice />
      <Help />
    </>
  );
}

function Overview() {
  return (
    <>
      <HealthStrip />
      <Charts />
      <Activity />
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
  const host = part(document, name, HTMLElement);
  host.replaceChildren();
  render(shown, host);
}

listenToKeys(toForm);

const desk = part(document, 'desk', HTMLElement);
effect(() => {
  const { page, state } = view.value;
  desk.dataset.page = page;
  const [problem] = situation.value.problems;
  const place = `${TITLES[page === 'tasks' ? state : page]} · Tasks`;
  document.title = problem === undefined ? place : `⚠ ${problem.text} ${place}`;
});
const icon = part(document, 'icon', HTMLLinkElement);
const hasProblem = computed(() => situation.value.problems.length > 0);
effect(() => {
  icon.href = hasProblem.value ? '/icon-problem.svg' : '/icon.svg';
});
effect(() => {
  document.body.dataset.form = isFolded.value ? 'folded' : 'open';
});
effect(() => {
  desk.hidden = isAsking.value;
});

const wanted = computed(() => {
  const { state, q, action, cause, last } = view.value;
  return JSON.stringify({ state, filter: { q, action, cause: state === 'failed' ? cause : '', last } });
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
