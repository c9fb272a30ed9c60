import { computed, effect, signal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { Button, CopyButton, Icon, onEscape, RadioGroup, SmallButton } from '../shared/controls.tsx';
import { keysOf } from '../shared/keys-of.ts';
import type { Frame } from './diagnostics.ts';
import { formatMilliseconds, formatTime } from './format.ts';
import { model } from './model.ts';
import { type SnippetName, snippets, tokenCommand } from './snippets.ts';

const PING_INTERVAL_MS = 2_000;
const VIEWS = { frames: 'Frames', wscat: 'wscat', browser: 'Browser', node: 'Node', python: 'Python' };

type Pane = ReturnType<typeof paneOf>;

/** Returns the state of a panel or drawer that a button opens. When it is closed, the button gets the focus again. */
function paneOf(name: 'diagnostics' | 'drawer') {
  /** `data-part` of the button that opened the pane. Undefined while the pane is closed. */
  const opener = signal<string>();
  const isOpen = computed(() => opener.value !== undefined);
  const close = () => {
    const hadFocus = document.activeElement?.closest(`[data-part="${name}"]`) != null;
    const button = document.querySelector<HTMLElement>(`[data-part="${opener.peek()}"]`);
    opener.value = undefined;
    if (hadFocus) button?.focus();
  };
  const toggle = (by: string) => {
    if (opener.peek() === undefined) opener.value = by;
    else close();
  };
  return { name, opener, isOpen, toggle, close };
}

export const panel = paneOf('diagnostics');
const drawer = paneOf('drawer');
const shownView = signal<keyof typeof VIEWS>('frames');
/** Frames that the drawer shows while it is paused. */
const heldFrames = signal<readonly Frame[]>();

// More pings are sent while the panel or the drawer is open.
effect(() => {
  if (!panel.isOpen.value && !drawer.isOpen.value) return;
  model.client?.ping();
  const pings = setInterval(() => document.visibilityState === 'visible' && model.client?.ping(), PING_INTERVAL_MS);
  return () => clearInterval(pings);
});
const closePanel = onEscape(panel.close);
document.addEventListener('keydown', (event) => panel.isOpen.value && closePanel(event));

export function DiagnosticsPanel() {
  if (!panel.isOpen.value) return null;
  const toDrawer = () => {
    panel.opener.value = undefined;
    drawer.opener.value = 'connection';
  };
  return (
    <section
      class="diagnostics screen-only panel pad stack"
      id="diagnostics"
      data-part="diagnostics"
      aria-labelledby="diagnostics-heading"
    >
      <header class="row">
        <h2 id="diagnostics-heading">Connection</h2>
        <CloseButton pane={panel} />
      </header>
      <dl class="facts">
        {readings().map(([part, name, text]) => (
          <div key={part}>
            <dt>{name}</dt>
            <dd data-part={part}>{text}</dd>
          </div>
        ))}
      </dl>
      <Button data-part="drawer-open" onClick={toDrawer}>
        Frames and code
      </Button>
    </section>
  );
}

function readings(): readonly (readonly [part: string, name: string, text: string])[] {
  const { roundTrip, tickAge, jitter, missedTicks, hasMissedMore, reconnects, lastClose } = model.readings;
  const pings = roundTrip && [`p50 ${formatMilliseconds(roundTrip.p50)}`, `p95 ${formatMilliseconds(roundTrip.p95)}`];
  return [
    ['ping-figures', 'Round trip', pings?.map((text) => text.replaceAll(' ', '\u00a0')).join(', ') ?? 'no pong yet'],
    ['tick-age', 'Tick age', tickAge === undefined ? 'none yet' : formatSeconds(tickAge)],
    ['tick-interval', 'Tick interval', formatSeconds(model.intervalMs)],
    ['tick-jitter', 'Tick jitter', jitter === undefined ? 'not known yet' : formatMilliseconds(jitter)],
    ['missed-ticks', 'Missed ticks', `${hasMissedMore ? 'more than ' : ''}${missedTicks}`],
    ['reconnects', 'Reconnects', String(reconnects)],
    ['last-close', 'Last close', lastClose ? `${lastClose.text} (${formatTime(lastClose.at / 1000)})` : 'none'],
    ['token-expiry', 'Token', formatExpiry(model.session.value?.expiresAt, model.now.value)],
  ];
}

function CloseButton({ pane }: { pane: Pane }) {
  const { name } = pane;
  return (
    <SmallButton
      class="button-plain push"
      data-part={`${name}-close`}
      aria-label={`Close the ${name}`}
      onClick={pane.close}
    >
      <Icon name="close" />
    </SmallButton>
  );
}

export function DrawerToggle() {
  return (
    <SmallButton
      data-part="drawer-toggle"
      aria-expanded={drawer.isOpen.value}
      aria-controls="drawer"
      onClick={() => drawer.toggle('drawer-toggle')}
    >
      Developers
    </SmallButton>
  );
}

export function Drawer() {
  if (!drawer.isOpen.value) return null;
  const { value: shown } = shownView;
  return (
    <section
      class="drawer screen-only column"
      id="drawer"
      data-part="drawer"
      aria-labelledby="drawer-heading"
      onKeyDown={onEscape(drawer.close)}
      ref={focusChecked}
    >
      <header class="row">
        <h2 id="drawer-heading">Developers</h2>
        <RadioGroup
          legend="Shown in this drawer"
          name="drawer-view"
          class="small"
          options={keysOf(VIEWS).map((name) => [name, VIEWS[name]] as const)}
          chosen={shown}
          onChoose={(name) => (shownView.value = name)}
        />
        <CloseButton pane={drawer} />
      </header>
      {shown === 'frames' ? <FramesView /> : <SnippetView name={shown} />}
    </section>
  );
}

const focusChecked = (opened: Element | null) => opened?.querySelector<HTMLInputElement>('input:checked')?.focus();

function FramesView() {
  const list = useRef<HTMLOListElement>(null);
  const { value: newest } = model.diagnostics.frames;
  const { value: held } = heldFrames;
  const items = (held ?? newest).map(({ at, bytes, text, number }) => {
    const time = `${formatTime(at / 1000)}.${String(at % 1000).padStart(3, '0')}`;
    return { number, time, size: `${bytes.toLocaleString('en-US')} B`, text };
  });
  return (
    <div class="drawer-view column" data-part="frames-view">
      <div class="row">
        <p class="quiet small grow">The last 50 frames as received, newest first</p>
        <SmallButton
          data-part="pause-frames"
          onClick={() => (heldFrames.value = held === undefined ? newest : undefined)}
        >
          <Icon name={held === undefined ? 'pause' : 'resume'} />
          {held === undefined ? 'Pause' : 'Resume'} <span class="visually-hidden">the frames</span>
        </SmallButton>
        <CopyButton
          source={list}
          text={() => items.map(({ time, size, text }) => `${time}  ${size}  ${text}`).join('\n')}
        >
          Copy all
        </CopyButton>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: focusable for keyboard scrolling */}
      <ol class="frames" data-part="frames" tabIndex={0} aria-label="Frames, newest first" ref={list}>
        {items.map(({ number, time, size, text }) => (
          <li key={number} class="row">
            <p class="row spread quiet small">
              <span data-part="frame-time">{time}</span> <span data-part="frame-size">{size}</span>
            </p>
            <code data-part="frame-text">{text}</code>
          </li>
        ))}
      </ol>
    </div>
  );
}

function SnippetView({ name }: { name: SnippetName }) {
  const code = useRef<HTMLElement>(null);
  const text = snippets[name](location.origin);
  return (
    <div class="drawer-view column" data-part="snippet-view">
      <div class="row">
        <p class="quiet small grow">
          Replace YOUR_TOKEN with the token that this command returns:{' '}
          <code data-part="token-command">{tokenCommand(location.origin)}</code>
        </p>
        <CopyButton source={code} text={text}>
          Copy code
        </CopyButton>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: focusable for keyboard scrolling */}
      <pre tabIndex={0}>
        <code data-part="snippet" ref={code}>
          {text}
        </code>
      </pre>
    </div>
  );
}

const formatSeconds = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(1)} s`;

function formatExpiry(expiresAt: number | undefined, now: number): string {
  if (expiresAt === undefined) return 'no token';
  const seconds = Math.ceil((expiresAt - now) / 1000);
  if (seconds <= 0) return 'expired';
  return seconds < 60 ? `expires in ${seconds} s` : `expires in ${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
