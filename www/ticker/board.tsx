import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { Button, Icon, onEscape, RadioGroup, SearchField } from '../shared/controls.tsx';
import { keysOf } from '../shared/keys-of.ts';
import { formatLength, formatShare } from './format.ts';
import { model } from './model.ts';
import { changeSpan, LargeChart, PriceCard } from './price-card.tsx';
import type { Quote } from './quote.ts';
import { stars } from './stars.ts';
import { addressWith, CANDLES, CANDLES_OF, changeView, followLink, ORDERS, RANGES, type View, view } from './view.ts';

const MAX_ROOMY = 3;
/** Maximum number of symbols shown as cards. More symbols are shown as rows. */
const MAX_COMPACT = 12;
/** Seconds after which rows are sorted again. */
const SORT_SECONDS = 5;
const ANNOUNCE_MS = 30_000;
const MAX_ANNOUNCED = 8;

/** Fields of the view that close the large chart. */
const ALL = { symbol: '' };

const filter = signal('');
/** Symbol of the card that the user last focused or clicked. */
const selected = signal('');
/** Summary of the prices for screen readers, which changes every 30 seconds while it is switched on. */
const announcement = signal('');
let announcing: ReturnType<typeof setInterval> | undefined;

/** Controls of the charts, and the user. They appear together with the first prices. */
export function Tools() {
  const { range, candles, order } = view.value;
  const { value: isPaused } = model.isPaused;
  if (model.quotes.value.length === 0) return null;
  return (
    <div class="tools row" data-part="tools">
      <RadioGroup
        legend="Time shown in the charts"
        name="window"
        options={keysOf(RANGES).map((name) => [name, formatLength(RANGES[name])] as const)}
        chosen={range}
        onChoose={(range) => changeView({ range })}
      />
      <select
        class="select"
        aria-label="Kind of chart"
        value={candles}
        onChange={({ currentTarget }) => changeView({ candles: currentTarget.value as View['candles'] })}
      >
        {CANDLES_OF[range].map((name) => (
          <option key={name} value={name}>
            {name === 'line' ? 'Line' : `Candles, ${formatLength(CANDLES[name])}`}
          </option>
        ))}
      </select>
      <Button data-part="pause" onClick={() => model.togglePause()}>
        <Icon name={isPaused ? 'resume' : 'pause'} />
        {isPaused ? 'Resume' : 'Pause'}
      </Button>
      {model.quotes.value.length > MAX_COMPACT && view.value.symbol === '' && (
        <>
          <SearchField
            data-part="filter"
            aria-label="Filter by symbol"
            placeholder="Filter"
            autocapitalize="characters"
            maxLength={33}
            value={filter.value}
            onInput={({ currentTarget }) => (filter.value = currentTarget.value)}
          />
          <select
            class="select"
            aria-label="Sort by"
            value={order}
            onChange={({ currentTarget }) => changeView({ order: currentTarget.value as View['order'] })}
          >
            {ORDERS.map((each) => (
              <option key={each} value={each}>
                By {each}
              </option>
            ))}
          </select>
        </>
      )}
      <label class="row tight push">
        <input type="checkbox" onChange={({ currentTarget }) => announce(currentTarget.checked)} />
        <span>Announce prices</span>
      </label>
      {model.session.value !== undefined && (
        <button type="button" class="button button-plain" data-part="sign-out" onClick={() => model.signOut()}>
          Sign out <span class="quiet">{model.session.value.userId}</span>
        </button>
      )}
      <p class="visually-hidden" aria-live="polite" data-part="announcement">
        {announcement.value}
      </p>
    </div>
  );
}

export function Board() {
  const { symbol } = view.value;
  const { value: quotes } = model.quotes;
  const board = useRef<HTMLElement>(null);
  useEffect(() => {
    if (symbol === '') return;
    // The card of a closed chart gets the focus.
    return () => board.current?.querySelector<HTMLElement>(`[data-symbol="${CSS.escape(symbol)}"] a`)?.focus();
  }, [symbol]);
  const listed = useListed(board);
  const { length } = quotes;
  const density = length <= MAX_ROOMY ? 'roomy' : length <= MAX_COMPACT ? 'compact' : 'dense';
  const isOne = symbol !== '' && length > 0;
  const quote = quotes.find((each) => each.symbol === symbol);
  return (
    <section
      class="board grid"
      data-part="board"
      data-density={isOne ? 'one' : density}
      aria-label="Prices"
      ref={board}
      onKeyDown={isOne ? onEscape(() => changeView(ALL)) : undefined}
    >
      {isOne && (
        <a class="button" ref={focusInPlace} href={addressWith(ALL)} onClick={(event) => followLink(event, ALL)}>
          All prices
        </a>
      )}
      {isOne && quote === undefined && <p class="notice">This service has no symbol {symbol}.</p>}
      {quote !== undefined && <LargeChart key={symbol} quote={quote} />}
      {!isOne && listed.map((each) => <PriceCard key={each.symbol} quote={each} selected={selected} />)}
    </section>
  );
}

/** Focuses the link from the large chart to all prices when it appears, so that the next key continues there. */
const focusInPlace = (link: HTMLElement | null) => link?.focus({ preventScroll: true });

/** Returns the open quote, the visible one that the user last focused or clicked, or else the first visible one. */
export function selectedQuote(): Quote | undefined {
  const visible = matching();
  const named = (symbol: string) => visible.find((quote) => quote.symbol === symbol);
  return named(view.value.symbol) ?? named(selected.value) ?? visible[0];
}

function matching(): readonly Quote[] {
  const text = filter.value.trim().toUpperCase();
  return model.quotes.value.filter(({ symbol }) => symbol.includes(text));
}

/** Returns the quotes that match the filter, starred ones first. Their order stands still while the user is at them. */
function useListed(board: { readonly current: HTMLElement | null }): readonly Quote[] {
  const { order, range } = view.value;
  const quotes = matching();
  const turn = Math.floor(model.drawn.value.end / SORT_SECONDS);
  const chosen = JSON.stringify([order, range, stars.value, quotes.map(({ symbol }) => symbol)]);
  const last = useRef<{ turn: number; chosen: string; sorted: readonly Quote[] }>(undefined);
  const { current: before } = last;
  const isHeld = board.current?.matches(':hover, :focus-within');
  if (before?.chosen === chosen && (before.turn === turn || isHeld)) return before.sorted;
  const rank = ranks[order];
  const isStarred = ({ symbol }: Quote) => Number(stars.value.includes(symbol));
  const sorted = quotes.toSorted((a, b) => isStarred(b) - isStarred(a) || rank(b) - rank(a));
  last.current = { turn, chosen, sorted };
  return sorted;
}

const shareOf = (quote: Quote) => quote.changeOver(RANGES[view.value.range]).share;

/** Quotes with a higher number are listed first. Quotes with the same number are listed by name. */
const ranks: Readonly<Record<View['order'], (quote: Quote) => number>> = {
  name: () => 0,
  change: shareOf,
  price: ({ shown }) => shown.price,
};

function announce(isOn: boolean): void {
  clearInterval(announcing);
  announcement.value = '';
  if (!isOn) return;
  const say = () => {
    announcement.value = summary(model.isLive ? matching() : []);
  };
  say();
  announcing = setInterval(say, ANNOUNCE_MS);
}

function summary(quotes: readonly Quote[]): string {
  const isShort = quotes.length <= MAX_ANNOUNCED;
  const movement = (quote: Quote) => Math.abs(shareOf(quote));
  const announced = isShort ? quotes : quotes.toSorted((a, b) => movement(b) - movement(a)).slice(0, MAX_ANNOUNCED);
  const others = isShort ? [] : [`And ${quotes.length - MAX_ANNOUNCED} others.`];
  return [...announced.map(sentence), ...others].join(' ');
}

/** Returns a sentence such as `BTC-USD $42,013.37, up 0.03% in 1 min.` */
function sentence(quote: Quote): string {
  const change = quote.changeOver(RANGES[view.value.range]);
  const share = formatShare(change).replace(/^[+−]/, '').replace('<', 'less than ');
  const words = change.direction === 'none' ? 'unchanged' : `${change.direction} ${share}`;
  return `${quote.symbol} ${quote.format.price(quote.shown.price)}, ${words} ${changeSpan(change.since)}.`;
}
