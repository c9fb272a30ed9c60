import { effect, signal, untracked } from '@preact/signals';
import type { QueueActivity } from '../client/queue-api.ts';
import { addressOf, RANGES, type Range } from './address.ts';
import { formatAge, formatCount, formatRate, formatSpan } from './amounts.ts';
import { paced, status } from './board.ts';
import { RANGE_SPANS } from './charts.tsx';
import { followLink, view } from './navigation.ts';
import { FigureTable, type FigureTableProps } from './parts.tsx';
import { queue } from './service.ts';
import { visibleText } from './visible-text.ts';

const REFRESH_MS = 2_000;
/** Least share of a range that an answer covers, unless the service was started within the range. */
const LEAST_SHARE = 0.9;

type Action = QueueActivity['actions'][number];

const isOpen = signal(false);
/** Newest answer, with its period in words. */
const activity = signal<QueueActivity & { period: string }>();
const note = signal('');

const reads = new Map(RANGES.map((range) => [range, paced(REFRESH_MS, () => read(range))]));

async function read(range: Range): Promise<void> {
  const { seconds, label } = RANGE_SPANS[range];
  try {
    const answer = await queue.activity({ seconds });
    if (range !== view.peek().range) return;
    const { window_seconds: covered, counts_are_exact: isExact } = answer;
    const isWhole = covered >= LEAST_SHARE * seconds;
    const period = isWhole ? `of the last ${label}` : `since the start ${formatAge(covered * 1_000)} ago`;
    activity.value = { ...answer, period };
    note.value = isExact ? '' : 'Only the newest tasks are counted.';
  } catch (error) {
    if (range === view.peek().range) note.value = `Not up to date: ${(error as Error).message}`;
  }
}

effect(() => {
  const { page, range } = view.value;
  if (isOpen.value && page === 'tasks' && status.value !== undefined) untracked(() => reads.get(range)?.());
});

/** Folded tables of the tasks of each action in the range of the charts, and of what each worker thread runs. */
export function Activity() {
  const { label } = RANGE_SPANS[view.value.range];
  const { actions = [], workers = [], period = `of the last ${label}` } = activity.value ?? {};
  return (
    <details class="charts" data-part="activity" onToggle={({ currentTarget }) => (isOpen.value = currentTarget.open)}>
      <summary>
        <h2>Actions and workers</h2>{' '}
        <span class="quiet" role="status">
          {note}
        </span>
      </summary>
      <Panel
        caption={`Actions. Rates, failures and durations ${period}.`}
        part="actions"
        headings={['Action', 'Queued', 'In flight', 'Retrying', 'Failed', 'Rate', 'Failures', ...DURATIONS]}
        rows={actions.filter(isActive).sort(byUrgency).map(actionRow)}
      />
      <Panel
        caption="Workers. The longest running task is first."
        part="workers"
        headings={['Task', 'Action', 'Node', 'Thread', 'Attempt', 'Running for']}
        rows={workers.map(({ task, action, node, thread, attempt, elapsed_ms }) => [
          <a key={task} href={addressOf({ ...view.value, task })} onClick={followLink}>
            {task.slice(0, 8)}
          </a>,
          ...[visibleText(action ?? 'unreadable'), node ?? '–', thread ?? '–', attempt, formatSpan(elapsed_ms)],
        ])}
      />
    </details>
  );
}

function Panel(props: FigureTableProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: focusable for keyboard scrolling
    <section class="panel pad figures small" tabIndex={0} aria-label={props.caption}>
      <FigureTable {...props} />
    </section>
  );
}

const DURATIONS = ['Waiting p50', 'Waiting p95', 'Running p50', 'Running p95'];

function isActive({ queued, limited, scheduled, retrying, in_flight, failed, per_second }: Action): boolean {
  return queued + limited + scheduled + retrying + in_flight + failed + per_second > 0;
}

/** The action with most failures a second is first, then the one with most queued tasks. */
function byUrgency(one: Action, other: Action): number {
  const failures = ({ failure_share, per_second }: Action) => (failure_share ?? 0) * per_second;
  return failures(other) - failures(one) || other.queued - one.queued || (one.action < other.action ? -1 : 1);
}

function actionRow({ action, queued, limited, in_flight, retrying, failed, ...recent }: Action): string[] {
  const { per_second, failure_share: share, waiting, running } = recent;
  const counts = [queued + limited, in_flight, retrying, failed].map(formatCount);
  const shareText = share === null ? '–' : `${Math.round(share * 100)} %`;
  const durations = [waiting, running].flatMap((percentiles) => [span(percentiles?.p50), span(percentiles?.p95)]);
  return [visibleText(action), ...counts, `${formatRate(per_second)} / s`, shareText, ...durations];
}

function span(seconds: number | undefined): string {
  return seconds === undefined ? '–' : formatSpan(seconds * 1_000);
}
