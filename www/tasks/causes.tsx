import { computed } from '@preact/signals';
import { useRef } from 'preact/hooks';
import type { Cause } from '../client/dead-letters.ts';
import { filterOf, isSearched } from './address.ts';
import { model } from './board.ts';
import { changeView, view } from './navigation.ts';
import { client, repeated } from './service.ts';
import { formatClock, formatCount, visibleText } from './texts.ts';

const INTERVAL_MS = 2_000;
const MAX_CAUSES = 100;

const isShown = computed(() => view.value.page === 'tasks' && view.value.state === 'failed');
let counted: number | undefined;

/** Most frequent causes of the failed tasks, and the number of all failed tasks, with the time and text of the view. */
const { answer, problem, read, poll } = repeated<{ causes: readonly Cause[]; total: number }>(
  INTERVAL_MS,
  async () => {
    counted = model.count('failed');
    const { q, last } = view.peek();
    const found = await client.deadLetters.reasons(filterOf({ q, last, action: '', cause: '' }));
    const isWhole = !isSearched({ q, last }) && found.causes.length < MAX_CAUSES;
    if (view.peek().cause !== '' && isWhole && !found.causes.some(isMatching)) choose();
    return found;
  },
  { causes: [], total: 0 },
);

export const causesProblem = problem;

/** Whether the view has the cause and its action, or any. */
function isMatching(each: Cause): boolean {
  const { action, cause } = view.value;
  return (action || each.action) === each.action && (cause || each.cause) === each.cause;
}

export const matchingPermanent = computed(() =>
  answer.value.causes.filter(isMatching).reduce((sum, { permanent }) => sum + permanent, 0),
);

// Reads the causes when they are shown, for another text or time, when the number of failed tasks changes, and after missed events.
const searched = computed(() => isShown.value && [view.value.q, view.value.last, model.gaps.value].join('\n'));
searched.subscribe((search) => search !== false && void read());
model.queue.subscribe(() => isShown.peek() && model.count('failed') !== counted && poll());

/** Lists the failed tasks of a cause, or all of them. */
function choose({ action, cause }: Pick<Cause, 'action' | 'cause'> = { action: null, cause: '' }): void {
  changeView({ action: action ?? '', cause });
}

/** Causes with counts, of which the user chooses one or all. They stand still with the list. The arrow keys move between them. */
export function Causes({ isHeld }: { isHeld: boolean }) {
  const shown = useRef<readonly Cause[]>([]);
  const { causes, total } = answer.value;
  if (!isHeld || causes.length === shown.current.length) {
    const order = isHeld ? shown.current.map(keyOf) : [];
    const rank = (cause: Cause) => order.indexOf(keyOf(cause));
    shown.current = isHeld ? [...causes].sort((one, other) => rank(one) - rank(other)) : causes;
  }
  if (total === 0) return null;
  const { action, cause } = view.value;
  /** The causes, after all of them unless there is only one. */
  const choices = shown.current.length > 1 || cause !== '' ? [undefined, ...shown.current] : shown.current;
  const chosen = choices.findIndex((each) => each?.cause === cause && (each.action ?? '') === action);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    const buttons = [...(event.currentTarget as HTMLElement).querySelectorAll('button')];
    buttons[buttons.indexOf(document.activeElement as HTMLButtonElement) + step]?.focus();
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="reasons" data-hold>
      <h3 id="reasons-heading">Causes</h3>
      <ul aria-labelledby="reasons-heading" onKeyDown={onKeyDown}>
        {choices.map((each, index) => (
          <li key={each && keyOf(each)}>
            <button
              type="button"
              class="reason row"
              aria-pressed={each === undefined ? cause === '' : index === chosen}
              tabIndex={index === Math.max(chosen, 0) ? 0 : -1}
              title={each && detailsOf(each)}
              onClick={() => choose(index === chosen ? undefined : each)}
            >
              <span class="reason-count strong">{formatCount(each?.count ?? total)}</span>{' '}
              <bdi class="clamp grow">{each ? visibleText(each.cause) : 'All causes'}</bdi>{' '}
              {each && each.action !== null && <span class="quiet">{visibleText(each.action)}</span>}
              {each && each.permanent === each.count && <span class="badge down">permanent</span>}
              {each && <Sparkline counts={each.minutes} />}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

const keyOf = ({ action, cause }: Cause) => JSON.stringify([action, cause]);

function detailsOf({ first_at, last_at, reasons }: Cause): string {
  const [first, last] = [first_at, last_at].map((seconds) => formatClock(seconds * 1000, false));
  const exact = reasons.map(({ reason, count }) => `${formatCount(count)} ${visibleText(reason)}`);
  return [`From ${first} to ${last}`, ...exact].join('\n');
}

/** Failures in each of the last 30 minutes, as bars. */
function Sparkline({ counts }: { counts: readonly number[] }) {
  const highest = Math.max(1, ...counts);
  const bars = counts.map((count, minute) => `M${minute + 0.5} 1v${-count / highest}`);
  return (
    <svg class="sparkline" viewBox={`0 0 ${counts.length} 1`} preserveAspectRatio="none" aria-hidden="true">
      <path d={bars.join('')} />
    </svg>
  );
}
