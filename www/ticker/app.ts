import { type Connection, ConnectionPill, secondsUntil } from '../shared/connection-pill.ts';
import { part } from '../shared/dom.ts';
import { discardKeptSession, keptSession } from '../shared/kept-session.ts';
import type { Session } from '../shared/session.ts';
import { SignInForm } from '../shared/sign-in-form.ts';
import { Announcer } from './announcer.ts';
import { Board } from './board.ts';
import { DeveloperTools } from './developer-tools.ts';
import { formatMilliseconds, formatTime } from './format.ts';
import { Stream, type StreamState } from './stream.ts';

const tools = part(document, 'tools', HTMLElement);
const windows = part(document, 'windows', HTMLFieldSetElement);
const chartKind = part(document, 'chart-kind', HTMLSelectElement);
const pauseButton = part(document, 'pause', HTMLButtonElement);
const filter = part(document, 'filter', HTMLInputElement);
const announce = part(document, 'announce', HTMLInputElement);
const signOut = part(document, 'sign-out', HTMLButtonElement);
const retry = part(document, 'retry', HTMLButtonElement);
const roundTrip = part(document, 'round-trip', HTMLElement);

const pill = new ConnectionPill();
const stream = new Stream({
  onState: showState,
  onOpen: () => developerTools.opened(),
  onClose: (code) => developerTools.closed(code),
  onFrame: (text) => developerTools.frameReceived(text),
  onTick(tick) {
    board.take(tick.prices);
    developerTools.tickReceived(tick);
    tools.hidden = false;
    filter.hidden = !board.isLong;
    showTitle();
  },
  onHistory: (history) => board.fill(history),
  onRoundTrip(milliseconds) {
    roundTrip.textContent = milliseconds === undefined ? '' : formatMilliseconds(milliseconds);
    if (milliseconds !== undefined) developerTools.pongReceived(milliseconds);
  },
});
const board = new Board(part(document, 'board', HTMLElement), chartSettings(), () => stream.staleAfterMs);
const developerTools = new DeveloperTools(
  () => stream.ping(),
  () => stream.intervalMs,
);
const signInForm = new SignInForm(start);
let live = false;
let paused = false;
/** Unix time at which the charts end while the prices are paused. */
let pausedAt: number | undefined;
let state: StreamState = { kind: 'signed-out', reason: undefined };
const announcer = new Announcer(part(document, 'announcement', HTMLElement), () =>
  live && !paused ? board.quotes : [],
);

function start(session: Session): void {
  signInForm.close();
  developerTools.expiresAt = session.expiresAt;
  part(document, 'user', HTMLElement).textContent = session.userId;
  stream.start(session);
}

function showTitle(): void {
  const quote = live && !paused ? board.selected : undefined;
  document.title = quote === undefined ? 'Ticker' : `${quote.format.price(quote.price)} ${quote.symbol} · Ticker`;
}

function showState(changed: StreamState): void {
  state = changed;
  live = state.kind === 'live';
  retry.hidden = state.kind !== 'reconnecting';
  signOut.hidden = state.kind === 'signed-out';
  document.body.dataset.connection = state.kind;
  board.isRunning = state.kind !== 'signed-out';
  showTitle();
  pill.show(connection(state));
  if (state.kind !== 'signed-out') return;
  discardKeptSession();
  developerTools.expiresAt = undefined;
  signInForm.open(state.reason);
}

function connection(state: StreamState): Connection {
  const { kind } = state;
  switch (kind) {
    case 'signed-out':
      return { kind, text: () => 'Signed out', announcement: 'Signed out' };
    case 'connecting':
      return { kind, text: () => 'Connecting', announcement: 'Connecting' };
    case 'live':
      if (paused) {
        const text = () => (pausedAt === undefined ? 'Paused' : `Paused ${formatTime(pausedAt)}`);
        return { kind: 'paused', text, announcement: 'Prices are paused' };
      }
      return { kind, text: () => 'Live', announcement: 'Connected, prices are live' };
    case 'stale': {
      const age = () => Math.round((performance.now() - state.since) / 1000);
      return { kind, text: () => `Stale, no price for ${age()} s`, announcement: 'No new prices' };
    }
    case 'reconnecting': {
      const text = () => `Reconnecting in ${secondsUntil(state.at)} s`;
      return { kind, text, announcement: 'Connection lost, reconnecting' };
    }
  }
}

function chartSettings() {
  const windowSeconds = Number(windows.querySelector<HTMLInputElement>('input:checked')?.value);
  return { windowSeconds, candleSeconds: Number(chartKind.value) };
}

for (const control of [windows, chartKind]) {
  control.addEventListener('change', () => {
    board.settings = chartSettings();
  });
}

pauseButton.addEventListener('click', () => {
  paused = !paused;
  pausedAt = paused ? board.pause() : undefined;
  if (!paused) board.resume();
  document.body.toggleAttribute('data-paused', paused);
  showTitle();
  pill.show(connection(state));
  part(pauseButton, 'pause-label', HTMLElement).textContent = paused ? 'Resume' : 'Pause';
});

filter.addEventListener('input', () => {
  board.filter = filter.value;
});

announce.addEventListener('change', () => {
  announcer.on = announce.checked;
});

signOut.addEventListener('click', () => stream.signOut());
retry.addEventListener('click', () => stream.wake());
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') stream.wake();
});

const kept = keptSession();
if (kept === undefined) signInForm.open();
else start(kept);
