import { signal } from '@preact/signals';
import { keysOf } from '../shared/keys-of.ts';

/** Time spans in seconds, by their names in the URL. */
export const RANGES = { '1m': 60, '5m': 300, '15m': 900, '1h': 3_600, '24h': 86_400 } as const;
/** Lengths of candles in seconds, by their names in the URL. */
export const CANDLES = { line: 0, '5s': 5, '15s': 15, '1m': 60, '5m': 300, '1h': 3_600 } as const;
export const ORDERS = ['name', 'change', 'price'] as const;

export interface View {
  /** Symbol of the large chart, or an empty string. */
  symbol: string;
  range: keyof typeof RANGES;
  candles: keyof typeof CANDLES;
  order: (typeof ORDERS)[number];
}

const DEFAULT: View = { symbol: '', range: '1m', candles: 'line', order: 'name' };

const SHORT: readonly View['candles'][] = ['line', '5s', '15s', '1m'];
/** Lengths of candles into which each range can be divided. The prices of a day are too few for short ones. */
export const CANDLES_OF: Readonly<Record<View['range'], typeof SHORT>> = {
  '1m': SHORT,
  '5m': SHORT,
  '15m': SHORT,
  '1h': ['line', '5m'],
  '24h': ['line', '5m', '1h'],
};

function readView(): View {
  const query = new URLSearchParams(location.search);
  const one = <T extends string>(name: keyof View, known: readonly T[]) =>
    known.find((each) => each === query.get(name)) ?? (DEFAULT[name] as T);
  return consistent({
    symbol: query.get('symbol') ?? '',
    range: one('range', keysOf(RANGES)),
    candles: one('candles', keysOf(CANDLES)),
    order: one('order', ORDERS),
  });
}

/** Replaces candles that the range does not have by the shortest ones that it has. */
function consistent(changed: View): View {
  const all = CANDLES_OF[changed.range];
  return all.includes(changed.candles) ? changed : { ...changed, candles: all[1] ?? 'line' };
}

/** Current view of the page, stored in the URL's query so that links and the browser's history restore it. */
export const view = signal(readView());

addEventListener('popstate', () => {
  view.value = readView();
});

/** Returns the address of the current view with other fields. Fields with their default value are omitted. */
export function addressWith(fields: Partial<View>): string {
  const changed = Object.entries({ ...view.value, ...fields });
  const query = new URLSearchParams(changed.filter(([name, value]) => value !== DEFAULT[name as keyof View]));
  return query.size === 0 ? '/' : `/?${query}`;
}

/** Changes the view. Another symbol is a new entry of the browser's history. */
export function changeView(fields: Partial<View>): void {
  view.value = consistent({ ...view.value, ...fields });
  history[fields.symbol === undefined ? 'replaceState' : 'pushState'](null, '', addressWith(view.value));
}

/** Changes the view on a click, unless the click opens a link in another tab or window. */
export function followLink(event: MouseEvent, fields: Partial<View>): void {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  changeView(fields);
}
