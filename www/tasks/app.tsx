import { computed, effect } from '@preact/signals';
import { type ComponentChildren, render } from 'preact';
import { part } from '../shared/dom.ts';
import { Activity } from './activity.tsx';
import { link, linkState, model, situation } from './board.ts';
import { Charts } from './charts.tsx';
import { UndoNotice } from './deeds.tsx';
import { OpenQuestion } from './dialogs.tsx';
import { HealthStrip } from './health-strip.tsx';
import { Inspector } from './inspector.tsx';
import { Help, listenToKeys } from './keys.tsx';
import { Masthead, Pages, Tabs } from './masthead.tsx';
import { view } from './navigation.ts';
import { TimeZoneSelect, titleOf } from './parts.tsx';
import { LIMITS, SCHEDULES } from './settings-items.tsx';
import { SettingsList } from './settings-list.tsx';
import { connect } from './sign-in.ts';
import { isFolded, OwnTasks, SubmitForm } from './submit-form.tsx';
import { TaskListView } from './task-list.tsx';

// Before the views send requests, because this restores the token that they need.
connect();

/** Tabs, and the list of the current tab. */
function Shelf() {
  const { page, state } = view.value;
  return page === 'tasks' && [<Tabs key="tabs" />, <TaskListView key="list" state={state} />];
}

function Settings() {
  const { page } = view.value;
  if (page === 'schedules') return <SettingsList key={page} of={SCHEDULES} />;
  return page === 'limits' && <SettingsList key={page} of={LIMITS} />;
}

const parts: Readonly<Record<string, ComponentChildren>> = {
  pages: <Pages />,
  status: <Masthead />,
  'time-zone': <TimeZoneSelect />,
  overview: [<HealthStrip />, <Charts />, <Activity />],
  shelf: <Shelf />,
  settings: <Settings />,
  form: <SubmitForm />,
  own: <OwnTasks />,
  dialogs: [<Inspector />, <OpenQuestion />, <UndoNotice />, <Help />],
};
for (const [name, shown] of Object.entries(parts)) {
  const host = part(document, name, HTMLElement);
  host.replaceChildren();
  render(shown, host);
}

listenToKeys();

const desk = part(document, 'desk', HTMLElement);
const icon = part(document, 'icon', HTMLLinkElement);
const kind = computed(() => linkState.value.kind);
effect(() => {
  const { page, state } = view.value;
  desk.dataset.page = page;
  const [problem] = situation.value.problems;
  const place = `${titleOf(page === 'tasks' ? state : page)} · Tasks`;
  document.title = problem === undefined ? place : `⚠ ${problem.text} ${place}`;
});
computed(() => situation.value.problems.length > 0).subscribe((hasProblem) => {
  icon.href = hasProblem ? '/icon-problem.svg' : '/icon.svg';
});
effect(() => {
  document.body.dataset.form = isFolded.value ? 'folded' : 'open';
  document.body.dataset.connection = kind.value;
  desk.hidden = kind.value === 'signed-out';
});

view.subscribe(({ state, q, action, cause, last }) => {
  model.open(state, { q, action, cause: state === 'failed' ? cause : '', last });
});

for (const change of ['online', 'offline']) addEventListener(change, () => link.now());
