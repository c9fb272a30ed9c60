import type { Signal } from '@preact/signals';
import type { ComponentChild } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Icon, SmallButton } from '../shared/controls.tsx';
import { cssColour } from '../shared/plot.ts';
import { Chart, useDrawing } from './chart.tsx';
import { formatLength, formatMoment, formatShare, formatTimeBefore } from './format.ts';
import { model } from './model.ts';
import type { PriceChart, Zoom } from './price-chart.ts';
import type { ChartView } from './price-plot.ts';
import type { Quote } from './quote.ts';
import { stars, toggleStar } from './stars.ts';
import { addressWith, followLink, RANGES, view } from './view.ts';

const NAMES: Readonly<Record<string, string>> = { 'BTC-USD': 'Bitcoin', 'ETH-USD': 'Ethereum', 'SOL-USD': 'Solana' };
const TINT_MS = 400;
const WORDS = { up: 'up', down: 'down', none: 'unchanged' } as const;
const BUTTON_ZOOM = 2;
const reducedMotion = matchMedia('(prefers-reduced-motion: reduce)');

export function PriceCard({ quote, selected }: { quote: Quote; selected: Signal<string> }) {
  const { symbol } = quote;
  const drawing = useDrawing(quote);
  const select = () => (selected.value = symbol);
  const open = (event: MouseEvent) => {
    const isSelecting = getSelection()?.isCollapsed === false;
    if (!isSelecting && (event.target as Element).closest('button') === null) followLink(event, { symbol });
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the link in the heading does the same by keyboard
    <article
      class="panel price-card column"
      data-symbol={symbol}
      aria-labelledby={`symbol-${symbol}`}
      onClick={open}
      onFocusIn={select}
      onPointerDown={select}
    >
      <Header symbol={symbol} title={<a href={addressWith({ symbol })}>{symbol}</a>} />
      <Price quote={quote} />
      <Figures quote={quote} drawing={drawing} />
      <Chart symbol={symbol} drawing={drawing} />
    </article>
  );
}

export function LargeChart({ quote }: { quote: Quote }) {
  const { symbol } = quote;
  const { range, candles } = view.value;
  const [zoom, setZoom] = useState<Zoom>();
  const chart = useRef<PriceChart>(undefined);
  const drawing = useDrawing(quote, zoom);
  useEffect(() => setZoom(undefined), [range, candles]);

  const save = () => {
    const change = quote.changeOver(RANGES[range]);
    chart.current?.save({
      symbol,
      price: quote.format.price(quote.shown.price),
      change: `${formatShare(change)} ${changeSpan(change.since)}`,
      time: [drawing.from, Math.min(drawing.to, model.drawn.value.end)].map(formatMoment).join(' to '),
    });
  };
  return (
    <article class="panel price-card column large" data-symbol={symbol} aria-labelledby={`symbol-${symbol}`}>
      <Header symbol={symbol} title={symbol}>
        <div class="row push">
          <SmallButton aria-label="Zoom in" onClick={() => chart.current?.zoom(1 / BUTTON_ZOOM)}>
            +
          </SmallButton>
          <SmallButton aria-label="Zoom out" onClick={() => chart.current?.zoom(BUTTON_ZOOM)}>
            −
          </SmallButton>
          <SmallButton disabled={zoom === undefined} onClick={() => setZoom(undefined)}>
            Now
          </SmallButton>
          <SmallButton onClick={save}>Save as PNG</SmallButton>
        </div>
      </Header>
      <div class="row">
        <Price quote={quote} />
        <Figures quote={quote} drawing={drawing} />
      </div>
      <Chart symbol={symbol} drawing={drawing} chart={chart} onZoom={setZoom} />
      <p class="quiet small">
        Zoom with the wheel, two fingers, <kbd>+</kbd> and <kbd>−</kbd>; pan by dragging, or with <kbd>Shift</kbd>{' '}
        <kbd>←</kbd> <kbd>→</kbd>.
      </p>
    </article>
  );
}

function Header({ symbol, title, children }: { symbol: string; title: ComponentChild; children?: ComponentChild }) {
  return (
    <header class="row">
      <button
        type="button"
        class="star"
        aria-pressed={stars.value.includes(symbol)}
        aria-label={`Star ${symbol}`}
        onClick={() => toggleStar(symbol)}
      >
        <Icon name="star" />
      </button>
      <h2 id={`symbol-${symbol}`}>{title}</h2>
      <p class="quiet">{NAMES[symbol]}</p>
      {children}
    </header>
  );
}

/** Newest price, which is coloured for a moment when it changes. */
function Price({ quote }: { quote: Quote }) {
  const element = useRef<HTMLParagraphElement>(null);
  const before = useRef<number>(undefined);
  const { price } = quote.shown;
  useLayoutEffect(() => {
    const previous = before.current ?? price;
    before.current = price;
    if (price === previous || reducedMotion.matches || element.current === null) return;
    const colour = cssColour(element.current, price > previous ? '--up' : '--down')();
    element.current.animate({ color: [colour, getComputedStyle(element.current).color] }, TINT_MS);
  }, [price]);
  return (
    <p class="price" data-part="price" ref={element}>
      {quote.format.price(price)}
    </p>
  );
}

/** Change over the selected range, and the highest and lowest price in the chart. */
function Figures({ quote, drawing: { high, low } }: { quote: Quote; drawing: ChartView }) {
  const change = quote.changeOver(RANGES[view.value.range]);
  const { direction, since } = change;
  const extreme = (price: number) => (Number.isFinite(price) ? quote.format.price(price) : '–');
  return (
    <dl class="figures">
      <div>
        <dt class="small" data-part="change-since">
          Change {changeSpan(since)}
        </dt>
        <dd class="change toned" data-part="change" data-direction={direction}>
          <Icon class="arrow" name={`arrow-${direction}`} />
          <span class="visually-hidden">{WORDS[direction]}</span> <span data-part="share">{formatShare(change)}</span>{' '}
          <span class="quiet" data-part="amount">
            {quote.format.amount(change)}
          </span>
        </dd>
      </div>
      <div>
        <dt class="small">High in chart</dt>
        <dd data-part="high">{extreme(high)}</dd>
      </div>
      <div>
        <dt class="small">Low in chart</dt>
        <dd data-part="low">{extreme(low)}</dd>
      </div>
    </dl>
  );
}

/** Returns `in 5 min` for the selected range, or `since 14:03:22` if the history begins after its start. */
export const changeSpan = (since: number | undefined): string =>
  since === undefined
    ? `in ${formatLength(RANGES[view.value.range])}`
    : `since ${formatTimeBefore(since, model.drawn.value.end)}`;
