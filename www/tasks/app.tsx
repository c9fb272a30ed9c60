import { computed, effect } from '@preact/signals';
import { mount, part } from '../shared/dom.ts';
import { keptSession, type Session, signInForm } from '../shared/sign-in.ts';
import { Activity } from './activity.tsx';
import { link, linkState, model, situation } from './board.ts';
import { Toast } from './bulk-changes.tsx';
import { Charts } from './charts.tsx';
import { OpenQuestion } from './dialogs.tsx';
import { HealthStrip } from './health-strip.tsx';
import { Inspector } from './inspector.tsx';
import { Help } from './keys.tsx';
import { Masthead, Pages, Tabs } from './masthead.tsx';
import { view } from './navigation.ts';
import { TimeZoneSelect, titleOf } from './parts.tsx';
import { session, useSession } from './service.ts';
import { LIMITS, SCHEDULES } from './settings-items.tsx';
import { SettingsList } from './settings-list.tsx';
import { isFolded, OwnTasks, SubmitForm } from './submit-form.tsx';
import { TaskListView } from './task-list.tsx';

const SESSION_ENDED = 'Your session has ended. Enter the API key again.';

const kind = computed(() => linkState.value.kind);

// The token is restored before the views send requests, because they need it. The sign-in form appears only if the
// service requires a token.
const begin = (started: Session | undefined) => {
  useSession(started);
  link.start(started?.userId ?? '');
};
const openForm = signInForm((started) => {
  begin(started);
  model.reload();
});
begin(keptSession());
kind.subscribe((current) => {
  if (current !== 'signed-out') return;
  openForm(session.peek() && SESSION_ENDED);
  useSession(undefined);
});

/** All below the header of the page, except the sign-in form. */
function Desk() {
  const { page, state } = view.value;
  return (
    <div class="desk stack" data-page={page} hidden={kind.value === 'signed-out'}>
      <HealthStrip />
      <Charts />
      <Activity />
      {page === 'schedules' && <SettingsList key={page} of={SCHEDULES} />}
      {page === 'limits' && <SettingsList key={page} of={LIMITS} />}
      <div class="columns-layout stack">
        <div class="grow">{page === 'tasks' && [<Tabs key="tabs" />, <TaskListView key="list" state={state} />]}</div>
        <div class="side screen-only stack">
          <SubmitForm />
          <OwnTasks />
        </div>
      </div>
    </div>
  );
}

mount(<Pages />, 'pages');
mount(<Masthead />, 'status');
mount(<TimeZoneSelect />, 'time-zone');
mount(<Desk />, 'desk');
mount([<Inspector />, <OpenQuestion />, <Toast />, <Help />], 'dialogs');

const icon = part(document, 'icon', HTMLLinkElement);
effect(() => {
  const { page, state } = view.value;
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
});

view.subscribe(({ state, q, action, cause, last }) => {
  model.open(state, { q, action, cause: state === 'failed' ? cause : '', last });
});

for (const change of ['online', 'offline']) addEventListener(change, () => link.now());
