import { computed, signal } from '@preact/signals';
import type { QueueActivity } from '../client/queue-api.ts';
import { addressOf, RANGES } from './address.ts';
import { status } from './board.ts';
import { followLink, view } from './navigation.ts';
import { FigureTable, type FigureTableProps } from './parts.tsx';
import { client, repeated } from './service.ts';
import { formatAge, formatCount, formatRate, formatSpan, visibleText } from './texts.ts';

const REFRESH_MS = 2_000;
/** Least share of a range that an answer covers, unless the service was started within the range. */
const LEAST_SHARE = 0.9;

type Action = QueueActivity['actions'][number];

const isOpen = signal(false);
const shownRange = computed(() => (isOpen.value && view.value.page === 'tasks' ? view.value.range : undefined));

const { answer, problem, read, poll } = repeated(
  REFRESH_MS,
  async (): Promise<(QueueActivity & { period: string }) | undefined> => {
    const { seconds, label } = RANGES[view.peek().range];
    const activity = await client.queue.activity({ seconds });
    const covered = activity.window_seconds;
    const isWhole = covered >= LEAST_SHARE * seconds;
    const period = isWhole ? `of the last ${label}` : `since the start ${formatAge(covered * 1_000)} ago`;
    return { ...activity, period };
  },
  undefined,
);

shownRange.subscribe((range) => range && void read());
status.subscribe(() => shownRange.peek() && poll());

export function Activity() {
  const { label } = RANGES[view.value.range];
  const { actions = [], workers = [], period = `of the last ${label}`, counts_are_exact = true } = answer.value ?? {};
  return (
    <details class="charts" data-part="activity" onToggle={({ currentTarget }) => (isOpen.value = currentTarget.open)}>
      <summary>
        <h2>Actions and workers</h2>{' '}
        <output class="quiet">{problem.value || (counts_are_exact ? '' : 'Only the newest tasks are counted.')}</output>
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

const span = (seconds: number | undefined): string => (seconds === undefined ? '–' : formatSpan(seconds * 1_000));
