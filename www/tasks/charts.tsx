import { type Signal, useComputed, useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { QueueStatus } from '../client/queue-api.ts';
import { formatClock, formatCount, formatRate, formatSpan } from './amounts.ts';
import { linkState, model } from './board.ts';
import { view } from './navigation.ts';
import { HISTORY_SECONDS, type Periods, QueueHistory } from './queue-history.ts';
import { isSignedOut, queue } from './service.ts';
import { type ChartLine, TimeChart } from './time-chart.ts';

const REFRESH_MS = 2_000;
const RETRY_MS = 5_000;
const PERIOD_SECONDS = 5;
const TABLE_SECONDS = 60;

type Line = 'completed' | 'failed' | 'depth';

/** History as shown: in periods for the charts, and minute by minute for the table. */
interface Shown {
  periods: Periods;
  minutes: Periods;
  newest: ReturnType<QueueHistory['newest']>;
  end: number;
}

const THROUGHPUT = {
  completed: { label: 'Completed', colour: '--accent', fill: '--accent-veil' },
  failed: { label: 'Failed', colour: '--down', dash: [0.3, 0.2] },
};
const DEPTH = { depth: { label: 'Waiting, running and retrying', colour: '--accent', fill: '--accent-veil' } };

/** Charts of the last 15 minutes: tasks per second, unfinished tasks, and latencies. */
export function Charts() {
  const details = useRef<HTMLDetailsElement>(null);
  const note = useSignal('');
  const shown = useSignal<Shown | undefined>(undefined);
  const isWide = useMemo(() => matchMedia('(min-width: 48rem)').matches, []);
  const isOpen = useSignal(isWide);
  const history = useMemo(() => new QueueHistory(), []);
  const { kind } = linkState.value;
  const isOn = kind !== 'connecting' && kind !== 'signed-out' && view.value.page === 'tasks' && isOpen.value;
  useEffect(() => (isOn ? readWhileVisible(history, shown, note) : undefined), [isOn]);
  return (
    <section class="charts" aria-label="The last 15 minutes">
      <details
        open={isWide}
        data-part="charts-details"
        ref={details}
        onToggle={({ currentTarget }) => {
          isOpen.value = currentTarget.open;
        }}
      >
        <summary class="charts-summary">
          <h2>The last 15 minutes</h2>{' '}
          <span class="quiet" role="status">
            {note}
          </span>
        </summary>
        <div class="charts-grid">
          <ChartCard
            part="throughput"
            heading="Tasks per second"
            about="Line chart of completed and failed tasks per second. A table follows."
            lines={THROUGHPUT}
            minTop={1}
            format={formatRate}
            shown={shown}
          />
          <ChartCard
            part="depth"
            heading="Tasks in the queue"
            about="Line chart of the tasks in the queue. A table follows."
            lines={DEPTH}
            minTop={5}
            format={formatCount}
            shown={shown}
          />
          <Latencies latency={model.queue.value?.latency} />
        </div>
        <HistoryTable shown={shown} />
      </details>
    </section>
  );
}

/** Reads the queue's history again and again while the page is visible. @returns a function that stops it */
function readWhileVisible(history: QueueHistory, shown: Signal<Shown | undefined>, note: Signal<string>): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isReading = false;
  let isStopped = false;
  const read = async (): Promise<number | undefined> => {
    try {
      const newer = await queue.history(history.end === undefined ? {} : { since: history.end });
      const isReset = history.end !== undefined && newer.end < history.end;
      history.add(isReset ? await queue.history() : newer);
      const [periods, minutes] = [history.periods(PERIOD_SECONDS), history.periods(TABLE_SECONDS)];
      shown.value = { periods, minutes, newest: history.newest(), end: history.end ?? 0 };
      note.value = '';
      return REFRESH_MS;
    } catch (error) {
      note.value = `Not up to date: ${(error as Error).message}`;
      return isSignedOut(error) ? undefined : RETRY_MS;
    }
  };
  const refresh = async () => {
    clearTimeout(timer);
    if (isStopped || isReading || document.visibilityState === 'hidden') return;
    isReading = true;
    const delayMs = await read();
    isReading = false;
    if (delayMs !== undefined && !isStopped) timer = setTimeout(() => void refresh(), delayMs);
  };
  const onVisible = () => void refresh();
  document.addEventListener('visibilitychange', onVisible);
  void refresh();
  return () => {
    isStopped = true;
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', onVisible);
  };
}

interface ChartCardProps {
  part: string;
  heading: string;
  /** Description of the chart for screen readers. */
  about: string;
  lines: Readonly<Partial<Record<Line, ChartLine & { label: string }>>>;
  minTop: number;
  format(value: number): string;
  shown: Signal<Shown | undefined>;
}

/** Chart with a legend that shows the values under the crosshair, or the newest values without a crosshair. */
function ChartCard({ part, heading, about, lines, minTop, format, shown }: ChartCardProps) {
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<TimeChart | undefined>(undefined);
  const index = useSignal<number | undefined>(undefined);
  const names = Object.keys(lines) as Line[];
  useEffect(() => {
    const onIndex = (at: number | undefined) => {
      index.value = at;
    };
    chart.current = new TimeChart(host.current as HTMLElement, { lines: Object.values(lines), minTop, onIndex });
  }, []);
  useEffect(() => {
    if (shown.value === undefined) return;
    const { periods, end } = shown.value;
    const columns = names.map((name) => periods[name]);
    chart.current?.render({ times: periods.times, columns, from: end - HISTORY_SECONDS, to: end });
  }, [shown.value]);
  const time = useComputed(() => (index.value === undefined ? undefined : shown.value?.periods.times[index.value]));
  const textOf = (name: Line) => {
    const value = index.value === undefined ? shown.value?.newest[name] : shown.value?.periods[name][index.value];
    return value == null ? '–' : format(value);
  };
  return (
    <section class="panel chart-card" data-part={part} aria-labelledby={`${part}-heading`}>
      <div class="chart-head">
        <h3 class="label" id={`${part}-heading`}>
          {heading}{' '}
          <span class="quiet" data-part="chart-time">
            {time.value === undefined ? 'now' : `at ${formatClock(time.value * 1_000, false)}`}
          </span>
        </h3>
        <dl class="legend">
          {names.map((name) => (
            <div key={name}>
              <dt>
                <svg class="line-sample" data-line={name} viewBox="0 0 24 8" aria-hidden="true">
                  <path d="M0 4h24" />
                </svg>
                {lines[name]?.label}
              </dt>
              <dd data-part={`chart-${name}`}>{textOf(name)}</dd>
            </div>
          ))}
        </dl>
      </div>
      <div class="plot" role="img" aria-label={about} ref={host} />
    </section>
  );
}

const PERCENTILES = ['p50', 'p95', 'p99'] as const;

/** Table of the latency percentiles, with a bar per row. */
function Latencies({ latency }: { latency: QueueStatus['latency'] | undefined }) {
  const rows = [
    { name: 'waiting', term: 'Waiting', values: latency?.waiting },
    { name: 'running', term: 'Running', values: latency?.running },
  ];
  const known = rows.flatMap(({ values }) => (values ? PERCENTILES.map((name) => values[name]) : []));
  // The scale is logarithmic, because waiting times can be a thousand times longer than running times.
  const low = Math.log(Math.max(Math.min(...known), 1e-4));
  const high = Math.max(Math.log(Math.max(...known)), low + 1);
  const share = (seconds: number) => Math.min(Math.max((Math.log(Math.max(seconds, 1e-4)) - low) / (high - low), 0), 1);
  return (
    <section class="panel chart-card" aria-labelledby="latency-heading">
      <h3 class="label" id="latency-heading">
        Latency <span class="quiet">{latency && `last ${formatSpan(latency.window_seconds * 1_000)}`}</span>
      </h3>
      <table class="latencies" aria-labelledby="latency-heading">
        <thead>
          <tr>
            <th scope="col">
              <span class="visually-hidden">Time spent</span>
            </th>
            {PERCENTILES.map((name) => (
              <th key={name} scope="col">
                <span class="mark-sample" data-mark={name} aria-hidden="true" /> {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.flatMap(({ name, term, values }) => [
            <tr key={name}>
              <th scope="row">{term}</th>
              {PERCENTILES.map((each) => (
                <td key={each} data-part={`${name}-${each}`}>
                  {values ? formatSpan(values[each] * 1_000) : '–'}
                </td>
              ))}
            </tr>,
            // biome-ignore lint/a11y/noAriaHiddenOnFocusable: no row of this table can get the focus
            <tr key={`${name}-range`} aria-hidden="true">
              <td class="range-cell" colSpan={4}>
                <span
                  class="range"
                  data-empty={values ? undefined : ''}
                  style={Object.fromEntries(
                    PERCENTILES.map((each) => [`--${each}`, values ? share(values[each]).toFixed(3) : '0']),
                  )}
                >
                  {PERCENTILES.map((each) => (
                    <i key={each} data-mark={each} style={{ '--at': `var(--${each})` }} />
                  ))}
                </span>
              </td>
            </tr>,
          ])}
        </tbody>
      </table>
    </section>
  );
}

/** The charts as a table for screen readers. A period that does not end at a full minute is incomplete. */
function HistoryTable({ shown }: { shown: Signal<Shown | undefined> }) {
  const minutes = shown.value?.minutes;
  const cell = (value: number | null | undefined, format: (value: number) => string) =>
    value == null ? 'unknown' : format(value);
  return (
    <div class="visually-hidden">
      <table>
        <caption>The last 15 minutes, minute by minute. Tasks per second, and the most tasks in the queue.</caption>
        <thead>
          <tr>
            {['Until', 'Completed', 'Failed', 'Retried', 'In the queue'].map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody data-part="history-table">
          {minutes?.times.map((time, index) =>
            time % TABLE_SECONDS !== 0 ? null : (
              <tr key={time}>
                <th scope="row">{formatClock(time * 1_000, false)}</th>
                {(['completed', 'failed', 'retried'] as const).map((name) => (
                  <td key={name}>{cell(minutes[name][index], formatRate)}</td>
                ))}
                <td>{cell(minutes.depth[index], formatCount)}</td>
              </tr>
            ),
          )}
        </tbody>
      </table>
    </div>
  );
}
