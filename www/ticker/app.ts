import { type Connection, ConnectionPill, secondsUntil } from '../shared/connection-pill.ts';
import { part } from '../shared/dom.ts';
import { SignInForm } from '../shared/sign-in-form.ts';
import { Announcer } from './announcer.ts';
import { Board } from './board.ts';
import { formatRoundTrip, formatTime } from './format.ts';
import { Stream, type StreamState } from './stream.ts';

const tools = part(document, 'tools', HTMLElement);
const windows = part(document, 'windows', HTMLFieldSetElement);
const pauseButton = part(document, 'pause', HTMLButtonElement);
const pauseNote = part(document, 'pause-note', HTMLElement);
const filter = part(document, 'filter', HTMLInputElement);
const announce = part(document, 'announce', HTMLInputElement);
const signOut = part(document, 'sign-out', HTMLButtonElement);
const retry = part(document, 'retry', HTMLButtonElement);
const roundTrip = part(document, 'round-trip', HTMLElement);

const pill = new ConnectionPill();
const board = new Board(part(document, 'board', HTMLElement), selectedWindow());
const stream = new Stream({
  onState: showState,
  onPrices(prices) {
    board.take(prices);
    tools.hidden = false;
    filter.hidden = !board.isLong;
  },
  onRoundTrip(milliseconds) {
    roundTrip.textContent = milliseconds === undefined ? '' : formatRoundTrip(milliseconds);
  },
});
const signInForm = new SignInForm((session) => {
  signInForm.close();
  part(document, 'user', HTMLElement).textContent = session.userId;
  stream.start(session);
});
let live = false;
let paused = false;
const announcer = new Announcer(part(document, 'announcement', HTMLElement), () =>
  live && !paused ? board.quotes : [],
);

function showState(state: StreamState): void {
  live = state.kind === 'live';
  retry.hidden = state.kind !== 'reconnecting';
  signOut.hidden = state.kind === 'signed-out';
  document.body.dataset.connection = state.kind;
  pill.show(connection(state));
  if (state.kind === 'signed-out') signInForm.open(state.reason);
}

function connection(state: StreamState): Connection {
  const { kind } = state;
  switch (kind) {
    case 'signed-out':
      return { kind, text: () => 'Signed out', announcement: 'Signed out' };
    case 'connecting':
      return { kind, text: () => 'Connecting', announcement: 'Connecting' };
    case 'live':
      return { kind, text: () => 'Live', announcement: 'Connected, prices are live' };
    case 'stale': {
      const age = () => Math.round((Date.now() - state.since) / 1000);
      return { kind, text: () => `Stale, no price for ${age()} s`, announcement: 'No new prices' };
    }
    case 'reconnecting': {
      const text = () => `Reconnecting in ${secondsUntil(state.at)} s`;
      return { kind, text, announcement: 'Connection lost, reconnecting' };
    }
  }
}

function selectedWindow(): number {
  return Number(windows.querySelector<HTMLInputElement>('input:checked')?.value);
}

windows.addEventListener('change', () => {
  board.windowSeconds = selectedWindow();
});

pauseButton.addEventListener('click', () => {
  paused = !paused;
  const second = paused ? board.pause() : undefined;
  if (!paused) board.resume();
  document.body.toggleAttribute('data-paused', paused);
  part(pauseButton, 'pause-label', HTMLElement).textContent = paused ? 'Resume' : 'Pause';
  pauseNote.textContent = second === undefined ? '' : `Paused at ${formatTime(second)}`;
});

filter.addEventListener('input', () => {
  board.filter = filter.value;
});

announce.addEventListener('change', () => {
  announcer.on = announce.checked;
});

signOut.addEventListener('click', () => stream.signOut());
retry.addEventListener('click', () => stream.wake());
addEventListener('online', () => stream.wake());
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') stream.wake();
});

signInForm.open();
