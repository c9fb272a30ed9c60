import { signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { formatLength, formatShare, formatTime, type PriceFormat } from './format.ts';
import { type Candle, toCandles } from './history.ts';
import { model } from './model.ts';
import type { PriceChart, Zoom } from './price-chart.ts';
import type { ChartView } from './price-plot.ts';
import { change, type Quote } from './quote.ts';
import { CANDLES, RANGES, view } from './view.ts';

/** Distance from the window, in heights of it, within which charts are drawn. */
const DRAWN_MARGIN = '50%';

const charts = signal<typeof import('./price-chart.ts')>();

/** Loads the module that draws charts, which the sign-in form does not need. */
export async function loadCharts(): Promise<void> {
  try {
    charts.value ??= await import('./price-chart.ts');
  } catch {
    // The service cannot be reached. The charts are loaded with the next connection.
  }
}

export function useDrawing(quote: Quote, zoom?: Zoom): ChartView {
  const { range, candles } = view.value;
  const { format } = quote;
  const { value: drawn } = model.drawn;
  return useMemo(() => {
    const { end } = drawn;
    const length = CANDLES[candles];
    // The time axis must end with the newest candle, which may end after the newest price.
    const newest = length === 0 ? end : (Math.floor(end / length) + 1) * length;
    const to = zoom?.to ?? newest;
    const from = to - (zoom?.seconds ?? RANGES[range]);
    const { points, gap } = quote.between(from, Math.min(to, end));
    const visible = points.filter(({ second }) => second >= from);
    const prices = visible.map(({ price }) => price);
    return {
      from,
      to,
      bounds: { from: Math.min(quote.oldest, newest - RANGES[range]), to: newest },
      candles: toCandles(length === 0 ? points : visible, length),
      length,
      gap,
      last: points.at(-1)?.price,
      high: Math.max(...prices),
      low: Math.min(...prices),
      format,
    };
  }, [quote, format, range, candles, drawn, zoom]);
}

interface ChartProps {
  symbol: string;
  drawing: ChartView;
  /** Receives the chart once it is drawn. */
  chart?: { current: PriceChart | undefined };
  onZoom?: (zoom: Zoom) => void;
}

/** Chart with the price under its crosshair, or else its time span. */
export function Chart({ symbol, drawing, onZoom, chart }: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const own = useRef<PriceChart>(undefined);
  const drawn = chart ?? own;
  const [point, setPoint] = useState<Candle>();
  const [isNear, setNear] = useState(false);
  const { value: loaded } = charts;
  useEffect(() => {
    const observer = new IntersectionObserver((changes) => setNear(changes.at(-1)?.isIntersecting ?? false), {
      rootMargin: DRAWN_MARGIN,
    });
    observer.observe(host.current as HTMLElement);
    return () => {
      observer.disconnect();
      drawn.current?.destroy();
    };
  }, []);
  useLayoutEffect(() => {
    if (!isNear || loaded === undefined) return;
    if (drawn.current !== undefined) drawn.current.render(drawing);
    else drawn.current = new loaded.PriceChart(host.current as HTMLElement, drawing, setPoint, onZoom);
  }, [drawing, isNear, loaded]);

  const { from, to, length, format } = drawing;
  const text = point === undefined ? caption(drawing) : `${formatTime(point.second)}  ${format.price(point.close)}`;
  const prices = point === undefined || length === 0 ? '' : candleText(point, format);
  return (
    <>
      <p class={`readout small ${point === undefined ? 'quiet' : ''}`} data-part="readout" data-point={point?.second}>
        {text}
      </p>
      {length > 0 && (
        <p class="candle-readout keep small" data-part="candle-readout">
          {prices}
        </p>
      )}
      <div
        class="chart plot"
        data-part="chart"
        ref={host}
        role="slider"
        tabIndex={0}
        aria-label={`Crosshair in the chart of ${symbol}`}
        aria-valuemin={Math.round(from)}
        aria-valuemax={Math.round(to)}
        aria-valuenow={point?.second ?? Math.round(to)}
        aria-valuetext={point === undefined ? 'no point chosen' : [text, prices].filter(Boolean).join(', ')}
      />
    </>
  );
}

function caption({ from, to, length }: ChartView): string {
  const seconds = RANGES[view.value.range];
  const isRange = Math.round(to - from) === seconds;
  const span = isRange ? `Last ${formatLength(seconds)}` : `${formatTime(from)} to ${formatTime(to)}`;
  return `${span}${length === 0 ? '' : `, candles of ${formatLength(length)}`}`;
}

function candleText({ open, high, low, close }: Candle, format: PriceFormat): string {
  const prices = Object.entries({ O: open, H: high, L: low, C: close });
  return [
    ...prices.map(([name, each]) => `${name}\u00a0${format.plainPrice(each)}`),
    formatShare(change(open, close)),
  ].join('  ');
}
