import { signal } from '@preact/signals';
import { readStored, store } from '../shared/stored.ts';

const STARS_KEY = 'stars';
const MAX_STARS = 64;

function readStars(): readonly string[] {
  const stored = readStored('localStorage', STARS_KEY);
  return Array.isArray(stored) ? stored.filter((each) => typeof each === 'string').slice(-MAX_STARS) : [];
}

/** Symbols that the user has starred, at most {@link MAX_STARS}. They are listed first. */
export const stars = signal(readStars());

addEventListener('storage', ({ key }) => {
  if (key === STARS_KEY) stars.value = readStars();
});

export function toggleStar(symbol: string): void {
  const { value } = stars;
  const others = value.filter((each) => each !== symbol);
  stars.value = others.length < value.length ? others : [...others, symbol].slice(-MAX_STARS);
  store('localStorage', STARS_KEY, stars.value.length === 0 ? undefined : stars.value);
}
