import { part } from '../shared/dom.ts';
import { describeClose } from './close-words.ts';
import type { Diagnostics } from './diagnostics.ts';
import { formatMilliseconds, formatTime } from './format.ts';

const UPDATE_INTERVAL_MS = 500;

export interface PanelContext {
  /** Returns the tick interval in milliseconds. */
  intervalMs(): number;
  /** Returns milliseconds since the epoch, or undefined if the user is signed out. */
  expiresAt(): number | undefined;
}

/** Panel with measurements of the connection, which a click on the connection state opens and closes. */
export class DiagnosticsPanel {
  readonly #pill = part(document, 'connection', HTMLButtonElement);
  readonly #panel = part(document, 'diagnostics', HTMLElement);
  readonly #diagnostics: Diagnostics;
  readonly #context: PanelContext;
  readonly #onToggle: () => void;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(diagnostics: Diagnostics, context: PanelContext, onToggle: () => void) {
    this.#diagnostics = diagnostics;
    this.#context = context;
    this.#onToggle = onToggle;
    this.#pill.addEventListener('click', () => this.#setOpen(!this.isOpen));
    part(this.#panel, 'diagnostics-close', HTMLButtonElement).addEventListener('click', () => this.close());
    document.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.isOpen && !event.defaultPrevented) this.close();
    });
  }

  get isOpen(): boolean {
    return !this.#panel.hidden;
  }

  close(): void {
    const hadFocus = this.#panel.contains(document.activeElement);
    this.#setOpen(false);
    if (hadFocus) this.#pill.focus();
  }

  #setOpen(open: boolean): void {
    this.#panel.hidden = !open;
    this.#pill.setAttribute('aria-expanded', String(open));
    clearInterval(this.#timer);
    if (open) {
      this.#show();
      this.#timer = setInterval(() => this.#show(), UPDATE_INTERVAL_MS);
    }
    this.#onToggle();
  }

  #show(): void {
    const intervalMs = this.#context.intervalMs();
    const { roundTrip, tickAge, jitter, missedTicks, hasMissedMore, reconnects, lastClose } =
      this.#diagnostics.readings(performance.now(), intervalMs);
    this.#write(
      'ping-figures',
      roundTrip === undefined
        ? 'no pong yet'
        : [`p50 ${formatMilliseconds(roundTrip.p50)}`, `p95 ${formatMilliseconds(roundTrip.p95)}`]
            .map(unbroken)
            .join(', '),
    );
    this.#write('tick-age', tickAge === undefined ? 'none yet' : formatSeconds(tickAge));
    this.#write('tick-interval', formatSeconds(intervalMs));
    this.#write('tick-jitter', jitter === undefined ? 'not known yet' : formatMilliseconds(jitter));
    this.#write('missed-ticks', `${hasMissedMore ? 'more than ' : ''}${missedTicks}`);
    this.#write('reconnects', String(reconnects));
    this.#write(
      'last-close',
      lastClose === undefined
        ? 'none'
        : `${describeClose(lastClose.code)} (${formatTime(Math.floor(lastClose.at / 1000))})`,
    );
    this.#write('token-expiry', formatExpiry(this.#context.expiresAt()));
  }

  #write(name: string, text: string): void {
    const element = part(this.#panel, name, HTMLElement);
    if (element.textContent !== text) element.textContent = text;
  }
}

const formatSeconds = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(1)} s`;

const unbroken = (text: string): string => text.replaceAll(' ', '\u00a0');

function formatExpiry(expiresAt: number | undefined): string {
  if (expiresAt === undefined) return 'no token';
  const seconds = Math.ceil((expiresAt - Date.now()) / 1000);
  if (seconds <= 0) return 'expired';
  return seconds < 60 ? `expires in ${seconds} s` : `expires in ${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
