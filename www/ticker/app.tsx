import { effect, untracked } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { Button } from '../shared/controls.tsx';
import { mount } from '../shared/dom.ts';
import { keptSession, signInForm } from '../shared/sign-in.ts';
import { Board, selectedQuote, Tools } from './board.tsx';
import { loadCharts } from './chart.tsx';
import { DiagnosticsPanel, Drawer, DrawerToggle, panel } from './developer-tools.tsx';
import { formatMilliseconds, formatTime } from './format.ts';
import { RECENT } from './history.ts';
import { model } from './model.ts';
import { RANGES, view } from './view.ts';

/** State of the connection, which screen readers announce when it becomes another, and its measurements. */
function ConnectionState() {
  const { kind, text, announcement } = describeConnection();
  const { value: roundTrip } = model.roundTrip;
  const announced = useRef({ kind, announcement: '' });
  if (announced.current.kind !== kind) announced.current = { kind, announcement };
  return (
    <>
      <button
        type="button"
        class="pill"
        data-part="connection"
        data-state={kind}
        aria-expanded={panel.isOpen.value}
        aria-controls="diagnostics"
        onClick={() => panel.toggle('connection')}
      >
        <span class="pill-mark" aria-hidden="true" />
        <span data-part="connection-text">{text}</span>
        <span class="quiet" data-part="round-trip" title="Time from a ping to its pong">
          {kind === 'live' && roundTrip !== undefined && formatMilliseconds(roundTrip)}
        </span>
        <span class="visually-hidden">(diagnostics)</span>
        <svg class="icon pill-chevron" viewBox="0 0 12 12" aria-hidden="true">
          <path d="M2 4l4 4 4-4" />
        </svg>
      </button>
      {kind === 'reconnecting' && (
        <Button data-part="retry" onClick={() => model.client?.wake()}>
          Retry
        </Button>
      )}
      <p class="visually-hidden" role="status" data-part="connection-status">
        {announced.current.announcement}
      </p>
      <DiagnosticsPanel />
    </>
  );
}

function describeConnection(): { kind: string; text: string; announcement: string } {
  const { value: connection } = model.connection;
  switch (connection.state) {
    case 'stopped':
      return { kind: 'signed-out', text: 'Signed out', announcement: 'Signed out' };
    case 'connecting':
      return { kind: 'connecting', text: 'Connecting', announcement: 'Connecting' };
    case 'live': {
      if (!model.isPaused.value) return { kind: 'live', text: 'Live', announcement: 'Connected, prices are live' };
      const { end } = model.drawn.value;
      const text = end === 0 ? 'Paused' : `Paused ${formatTime(end)}`;
      return { kind: 'paused', text, announcement: 'Prices are paused' };
    }
    case 'stale': {
      const seconds = Math.round((model.readings.tickAge ?? 0) / 1000);
      return { kind: 'stale', text: `Stale, no price for ${seconds} s`, announcement: 'No new prices' };
    }
    case 'offline': {
      const seconds = Math.max(1, Math.ceil((connection.retryAt - model.now.value) / 1000));
      const announcement = 'Connection lost, reconnecting';
      return { kind: 'reconnecting', text: `Reconnecting in ${seconds} s`, announcement };
    }
  }
}

mount(<ConnectionState />, 'status');
mount([<Tools key="tools" />, <Board key="board" />], 'prices');
mount(<DrawerToggle />, 'developers');
mount(<Drawer />, 'drawer-host');
model.runClock();

const openForm = signInForm((session) => model.start(session));

effect(() => {
  const { state } = model.connection.value;
  document.body.dataset.connection = state;
  document.body.toggleAttribute('data-paused', model.isPaused.value);
  if (state !== 'stopped') void untracked(loadCharts);
});
effect(() => {
  const { symbol, range } = view.value;
  if (symbol !== '' || RANGES[range] > RECENT) model.wantDay();
});
effect(() => {
  model.ticks.value;
  const quote = model.isLive ? selectedQuote() : undefined;
  document.title =
    quote === undefined ? 'Ticker' : `${quote.format.price(quote.latest.price)} ${quote.symbol} · Ticker`;
});

document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') model.client?.wake();
});

const kept = keptSession();
if (kept !== undefined) model.start(kept);
effect(() => {
  const { value: connection } = model.connection;
  if (connection.state === 'stopped' && model.session.value === undefined) openForm(connection.reason);
});
