import { computed } from '@preact/signals';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { keysOf } from '../shared/keys-of.ts';
import { RANGES } from './address.ts';
import { history, historyProblem } from './board.ts';
import { changeView, view } from './navigation.ts';
import { FigureTable, RadioGroup } from './parts.tsx';
import type { Periods } from './queue-history.ts';
import { formatClock, formatCount, formatRate } from './texts.ts';
import { type ChartLine, timeChart } from './time-chart.ts';

/** Seconds over which the newest rates are averaged. */
const NEWEST_SECONDS = 5;

type Line = 'accepted' | 'completed' | 'failed' | 'depth';

/** The chosen range of the history, in periods for the charts and for the table. Undefined before it is read. */
const shown = computed(() => {
  const { seconds, period, row, from } = RANGES[view.value.range];
  const source = history.value[from];
  const { end } = source;
  if (end === 0) return undefined;
  const starts = source.starts.filter((start) => start > end - seconds);
  const periods = source.periods(seconds, period);
  const rows = source.periods(seconds, row);
  return { periods, rows, from: end - seconds, end, starts };
});

const THROUGHPUT = {
  accepted: { label: 'Accepted', colour: '--quiet', dash: [0.05, 0.15] },
  completed: { label: 'Completed', colour: '--accent', fill: '--accent-veil' },
  failed: { label: 'Failed', colour: '--down', dash: [0.3, 0.2] },
};
const DEPTH = { depth: { label: 'Waiting, running and retrying', colour: '--accent', fill: '--accent-veil' } };

export function Charts() {
  const isWide = useMemo(() => matchMedia('(min-width: 48rem)').matches, []);
  const { label } = RANGES[view.value.range];
  return (
    <section class="charts" aria-label={`The last ${label}`}>
      <details open={isWide} data-part="charts-details">
        <summary>
          <h2>The last {label}</h2> <output class="quiet">{historyProblem}</output>
        </summary>
        <div class="grid">
          <ChartCard
            part="throughput"
            heading="Tasks per second"
            about="Line chart of accepted, completed and failed tasks per second. A table follows."
            lines={THROUGHPUT}
            minTop={1}
            format={formatRate}
          />
          <ChartCard
            part="depth"
            heading="Tasks in the queue"
            about="Line chart of the tasks in the queue. A table follows."
            lines={DEPTH}
            minTop={5}
            format={formatCount}
          />
        </div>
        <HistoryTable />
      </details>
      <RadioGroup
        legend="Time range"
        name="range"
        class="ranges small"
        options={keysOf(RANGES).map((range) => [range, RANGES[range].short] as const)}
        chosen={view.value.range}
        onChoose={(range) => changeView({ range }, 'replace')}
      />
    </section>
  );
}

interface ChartCardProps {
  part: string;
  heading: string;
  /** Description of the chart for screen readers. */
  about: string;
  lines: Readonly<Record<string, ChartLine & { label: string }>>;
  minTop: number;
  format(value: number): string;
}

/** Chart with a legend that shows the values under the crosshair, or the newest values without a crosshair. */
function ChartCard({ part, heading, about, lines, minTop, format }: ChartCardProps) {
  const host = useRef<HTMLDivElement>(null);
  const render = useRef<ReturnType<typeof timeChart>>(undefined);
  const [index, setIndex] = useState<number>();
  const names = Object.keys(lines) as Line[];
  useEffect(() => {
    if (shown.value === undefined) return;
    render.current ??= timeChart(host.current as HTMLElement, { lines, minTop, onIndex: setIndex });
    render.current(shown.value);
  }, [shown.value]);
  const time = index === undefined ? undefined : shown.value?.periods.times[index];
  const textOf = (name: Line) => {
    const newest = history.value.seconds.newest(name, name === 'depth' ? 1 : NEWEST_SECONDS);
    const value = index === undefined ? newest : shown.value?.periods[name][index];
    return value == null ? '–' : format(value);
  };
  return (
    <section class="panel pad column" data-part={part} aria-labelledby={`${part}-heading`}>
      <div class="row spread">
        <h3 id={`${part}-heading`}>
          {heading}{' '}
          <span class="quiet small" data-part="chart-time">
            {time === undefined ? 'now' : `at ${formatClock(time * 1_000, false)}`}
          </span>
        </h3>
        <dl class="row">
          {names.map((name) => (
            <div key={name} class="row">
              <dt class="row">
                <svg class="line-sample" data-line={name} style={sampleStyle(lines[name])} aria-hidden="true">
                  <line x2="100%" y1="50%" y2="50%" />
                </svg>
                {lines[name]?.label}
              </dt>
              <dd class="strong" data-part={`chart-${name}`}>
                {textOf(name)}
              </dd>
            </div>
          ))}
          {(shown.value?.starts.length ?? 0) > 0 && (
            <div>
              <dt>
                <span aria-hidden="true">┊</span>Start
              </dt>
            </div>
          )}
        </dl>
      </div>
      <div class="plot" role="img" aria-label={about} ref={host} />
    </section>
  );
}

const sampleStyle = ({ colour = '', dash = [] }: Partial<ChartLine> = {}) => ({
  stroke: `var(${colour})`,
  strokeDasharray: dash.map((length) => `${length}rem`).join(' '),
});

/** The charts as a table for screen readers. A period that is incomplete at its end is left out. */
function HistoryTable() {
  const { label, row } = RANGES[view.value.range];
  const { rows, starts = [] } = shown.value ?? {};
  const cell = (name: string, value: number | null | undefined) =>
    value == null ? 'unknown' : name === 'depth' ? formatCount(value) : formatRate(value);
  const tableRow = ({ times, ...columns }: Periods, index: number) => {
    const figures = Object.entries(columns).map(([name, values]) => cell(name, values[index]));
    return [formatClock((times[index] ?? 0) * 1_000, false), ...figures];
  };
  const started = starts.map((at) => formatClock(at * 1_000, false)).join(', ');
  return (
    <div class="visually-hidden">
      <FigureTable
        caption={`The last ${label}. Tasks per second, and the most tasks in the queue. Starts of the service: ${started || 'none'}.`}
        part="history-table"
        headings={['Until', 'Accepted', 'Completed', 'Failed', 'Retried', 'Refused', 'In the queue']}
        rows={rows?.times.flatMap((time, index) => (time % row === 0 ? [tableRow(rows, index)] : [])) ?? []}
      />
    </div>
  );
}
