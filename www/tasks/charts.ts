import type { QueueStatus } from '../client/queue-api.ts';
import { part } from '../shared/dom.ts';
import { formatClock, formatCount, formatRate } from './amounts.ts';
import { LatencyTable } from './latency-table.ts';
import { HISTORY_SECONDS, type HistoryPart, type Periods, QueueHistory } from './queue-history.ts';
import { isSignedOut } from './service.ts';
import { type ChartLine, TimeChart } from './time-chart.ts';

const REFRESH_MS = 2_000;
const RETRY_MS = 5_000;
const PERIOD_SECONDS = 5;
const TABLE_SECONDS = 60;

export interface ChartsOptions {
  host: HTMLElement;
  /** Requests the queue's history after the Unix time `since`, or the whole history. */
  readHistory(query?: { since?: number }): Promise<HistoryPart>;
  store: { readonly health: Pick<QueueStatus, 'latency'> | undefined; subscribe(listener: () => void): () => void };
}

/** Charts of the last 15 minutes: tasks per second, unfinished tasks, and latencies. */
export class Charts {
  readonly #details: HTMLDetailsElement;
  readonly #note: HTMLElement;
  readonly #table: HTMLElement;
  readonly #readHistory: ChartsOptions['readHistory'];
  readonly #cards: ChartCard[];
  readonly #history = new QueueHistory();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isOn = false;
  #isReading = false;

  constructor({ host, readHistory, store }: ChartsOptions) {
    this.#readHistory = readHistory;
    this.#details = part(host, 'charts-details', HTMLDetailsElement);
    this.#note = part(host, 'charts-note', HTMLElement);
    this.#table = part(host, 'history-table', HTMLElement);
    this.#cards = [throughputCard(host), depthCard(host)];
    const latencies = new LatencyTable(part(host, 'latencies', HTMLElement));
    store.subscribe(() => latencies.show(store.health?.latency));
    latencies.show(store.health?.latency);
    this.#details.open = matchMedia('(min-width: 48rem)').matches;
    this.#details.toggleAttribute('data-ready', true);
    this.#details.addEventListener('toggle', () => this.refresh());
    document.addEventListener('visibilitychange', () => this.refresh());
  }

  /** Shows the charts and updates them while they are visible. */
  start(): void {
    this.#isOn = true;
    this.refresh();
  }

  /** Updates the charts now if they are visible. */
  refresh(): void {
    clearTimeout(this.#timer);
    const isShown = this.#details.open && this.#details.checkVisibility() && document.visibilityState === 'visible';
    if (!this.#isOn || !isShown || this.#isReading) return;
    this.#isReading = true;
    void this.#read().then((delayMs) => {
      this.#isReading = false;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.refresh(), delayMs);
    });
  }

  /** Requests and shows the newest part of the queue's history. @returns milliseconds until the next request */
  async #read(): Promise<number> {
    const history = this.#history;
    try {
      const newer = await this.#readHistory(history.end === undefined ? {} : { since: history.end });
      const isReset = history.end !== undefined && newer.end < history.end;
      history.add(isReset ? await this.#readHistory() : newer);
      if (history.end !== undefined) this.#show(history.end);
      this.#say('');
      return REFRESH_MS;
    } catch (error) {
      if (isSignedOut(error)) this.#isOn = false;
      this.#say(`Not up to date: ${(error as Error).message}`);
      return RETRY_MS;
    }
  }

  #show(end: number): void {
    const periods = this.#history.periods(PERIOD_SECONDS);
    for (const card of this.#cards) card.show(periods, this.#history.newest(), end);
    const minutes = this.#history.periods(TABLE_SECONDS);
    // A period that does not end at a full minute is not shown, because it is incomplete.
    const rows = minutes.times.flatMap((time, index) => (time % TABLE_SECONDS === 0 ? [rowOf(minutes, index)] : []));
    if (rows.at(-1)?.[0] === this.#table.lastElementChild?.firstElementChild?.textContent) return;
    this.#table.replaceChildren(...rows.map(renderRow));
  }

  #say(text: string): void {
    if (this.#note.textContent !== text) this.#note.textContent = text;
  }
}

/** Chart with a legend that shows the values under the crosshair, or the newest values without a crosshair. */
class ChartCard {
  readonly #chart: TimeChart;
  readonly #time: HTMLElement;
  readonly #values: Map<Line, HTMLElement>;
  readonly #format: (value: number) => string;
  #periods: Periods | undefined;
  #newest: Newest | undefined;
  #index: number | undefined;

  constructor(card: HTMLElement, { lines, minTop, format }: CardOptions) {
    this.#format = format;
    this.#time = part(card, 'chart-time', HTMLElement);
    const names = Object.keys(lines) as Line[];
    this.#values = new Map(names.map((name) => [name, part(card, `chart-${name}`, HTMLElement)]));
    const onIndex = (index: number | undefined) => {
      this.#index = index;
      this.#write();
    };
    this.#chart = new TimeChart(part(card, 'plot', HTMLElement), { lines: Object.values(lines), minTop, onIndex });
  }

  show(periods: Periods, newest: Newest, end: number): void {
    this.#periods = periods;
    this.#newest = newest;
    const columns = [...this.#values.keys()].map((name) => periods[name]);
    this.#chart.render({ times: periods.times, columns, from: end - HISTORY_SECONDS, to: end });
    this.#write();
  }

  #write(): void {
    const index = this.#index;
    for (const [name, element] of this.#values) {
      const value = index === undefined ? this.#newest?.[name] : this.#periods?.[name][index];
      const text = value == null ? '–' : this.#format(value);
      if (element.textContent !== text) element.textContent = text;
    }
    const time = index === undefined ? undefined : this.#periods?.times[index];
    this.#time.textContent = time === undefined ? 'now' : `at ${formatClock(time * 1_000, false)}`;
  }
}

type Line = 'completed' | 'failed' | 'depth';
type Newest = ReturnType<QueueHistory['newest']>;

interface CardOptions {
  lines: Readonly<Partial<Record<Line, ChartLine>>>;
  minTop: number;
  format(value: number): string;
}

function throughputCard(host: HTMLElement): ChartCard {
  const lines = {
    completed: { colour: '--accent', fill: '--accent-veil' },
    failed: { colour: '--down', dash: [0.3, 0.2] },
  };
  return new ChartCard(part(host, 'throughput', HTMLElement), { lines, minTop: 1, format: formatRate });
}

function depthCard(host: HTMLElement): ChartCard {
  const lines = { depth: { colour: '--accent', fill: '--accent-veil' } };
  return new ChartCard(part(host, 'depth', HTMLElement), { lines, minTop: 5, format: formatCount });
}

function rowOf({ times, completed, failed, retried, depth }: Periods, index: number): string[] {
  const cell = (value: number | null | undefined, format: (value: number) => string) =>
    value == null ? 'unknown' : format(value);
  return [
    formatClock((times[index] ?? 0) * 1_000, false),
    ...[completed, failed, retried].map((column) => cell(column[index], formatRate)),
    cell(depth[index], formatCount),
  ];
}

function renderRow(cells: string[]): HTMLElement {
  const row = document.createElement('tr');
  row.append(
    ...cells.map((text, index) => {
      const cell = document.createElement(index === 0 ? 'th' : 'td');
      if (index === 0) cell.setAttribute('scope', 'row');
      cell.textContent = text;
      return cell;
    }),
  );
  return row;
}
