import type { Tick } from '../client/tick-reader.ts';
import { part } from '../shared/dom.ts';
import { Diagnostics } from './diagnostics.ts';
import { DiagnosticsPanel } from './diagnostics-panel.ts';
import { Frames } from './frames.ts';
import { FramesDrawer } from './frames-drawer.ts';

const PING_INTERVAL_MS = 2_000;

/** Connection diagnostics and a list of received frames. While one of them is visible, the page sends more pings. */
export class DeveloperTools {
  readonly #diagnostics = new Diagnostics();
  readonly #frames = new Frames();
  readonly #panel: DiagnosticsPanel;
  readonly #drawer: FramesDrawer;
  readonly #ping: () => void;
  readonly #intervalMs: () => number;
  #pings: ReturnType<typeof setInterval> | undefined;
  #expiresAt: number | undefined;

  constructor(ping: () => void, intervalMs: () => number) {
    this.#ping = ping;
    this.#intervalMs = intervalMs;
    const toggled = () => this.#measure();
    this.#panel = new DiagnosticsPanel(this.#diagnostics, { intervalMs, expiresAt: () => this.#expiresAt }, toggled);
    this.#drawer = new FramesDrawer(this.#frames, toggled);
    const opener = part(document, 'drawer-open', HTMLButtonElement);
    opener.addEventListener('click', () => {
      this.#panel.close();
      this.#drawer.open(part(document, 'connection', HTMLElement));
    });
  }

  /** Milliseconds since the epoch, or undefined after a sign-out. */
  set expiresAt(time: number | undefined) {
    this.#expiresAt = time;
    if (time === undefined) this.#diagnostics.signedOut();
  }

  opened(): void {
    this.#diagnostics.opened(performance.now());
  }

  closed(code: number): void {
    this.#diagnostics.closed(code, Date.now());
  }

  frameReceived(text: string): void {
    this.#frames.add(text, Date.now());
    this.#drawer.update();
  }

  tickReceived({ missed }: Tick): void {
    this.#diagnostics.tickReceived(missed, performance.now(), this.#intervalMs());
  }

  pongReceived(roundTrip: number): void {
    this.#diagnostics.pongReceived(roundTrip);
  }

  #measure(): void {
    const isOpen = this.#panel.isOpen || this.#drawer.isOpen;
    if (isOpen === (this.#pings !== undefined)) return;
    clearInterval(this.#pings);
    this.#pings = undefined;
    if (!isOpen) return;
    this.#ping();
    this.#pings = setInterval(() => {
      if (document.visibilityState === 'visible') this.#ping();
    }, PING_INTERVAL_MS);
  }
}
