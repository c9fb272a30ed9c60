import { makeCopyButton } from '../shared/copy-button.ts';
import { part, stamp } from '../shared/dom.ts';
import { formatTime } from './format.ts';
import { type Frame, type Frames, MAX_FRAMES } from './frames.ts';
import { type SnippetName, snippets, tokenCommand } from './snippets.ts';

/** Drawer that shows the received WebSocket frames and code snippets for clients. */
export class FramesDrawer {
  readonly #drawer = part(document, 'drawer', HTMLElement);
  readonly #list = part(this.#drawer, 'frames', HTMLOListElement);
  readonly #views = part(this.#drawer, 'drawer-views', HTMLFieldSetElement);
  readonly #pauseLabel = part(this.#drawer, 'pause-frames-label', HTMLElement);
  readonly #toggle = part(document, 'drawer-toggle', HTMLButtonElement);
  readonly #frames: Frames;
  readonly #onToggle: () => void;
  #opener: HTMLElement = this.#toggle;
  #isPaused = false;
  #shown = 0;
  #scheduled: number | undefined;

  constructor(frames: Frames, onToggle: () => void) {
    this.#frames = frames;
    this.#onToggle = onToggle;
    this.#toggle.addEventListener('click', () => {
      if (this.isOpen) this.close();
      else this.open(this.#toggle);
    });
    part(this.#drawer, 'drawer-close', HTMLButtonElement).addEventListener('click', () => this.close());
    this.#drawer.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      event.preventDefault();
      this.close();
    });
    this.#views.addEventListener('change', () => this.#showView());
    part(this.#drawer, 'pause-frames', HTMLButtonElement).addEventListener('click', () => this.#togglePause());
    makeCopyButton(part(this.#drawer, 'copy-frames', HTMLButtonElement), this.#list, () => this.#lines());
    const snippet = part(this.#drawer, 'snippet', HTMLElement);
    makeCopyButton(part(this.#drawer, 'copy-snippet', HTMLButtonElement), snippet);
    part(this.#drawer, 'token-command', HTMLElement).textContent = tokenCommand(location.origin);
    this.#showView();
  }

  get isOpen(): boolean {
    return !this.#drawer.hidden;
  }

  /** Opens the drawer. @param opener element that gets the focus when the drawer is closed */
  open(opener: HTMLElement): void {
    this.#opener = opener;
    this.#setOpen(true);
    this.#render();
    this.#views.querySelector<HTMLInputElement>('input:checked')?.focus();
  }

  close(): void {
    const hadFocus = this.#drawer.contains(document.activeElement);
    this.#setOpen(false);
    if (hadFocus) (this.#opener.checkVisibility() ? this.#opener : this.#toggle).focus();
  }

  /** Shows newly received frames at most once per animation frame. */
  update(): void {
    if (!this.isOpen || this.#isPaused) return;
    this.#scheduled ??= requestAnimationFrame(() => {
      this.#scheduled = undefined;
      this.#render();
    });
  }

  #setOpen(open: boolean): void {
    this.#drawer.hidden = !open;
    this.#toggle.setAttribute('aria-expanded', String(open));
    this.#onToggle();
  }

  #togglePause(): void {
    this.#isPaused = !this.#isPaused;
    this.#pauseLabel.textContent = this.#isPaused ? 'Resume' : 'Pause';
    this.#drawer.toggleAttribute('data-paused', this.#isPaused);
    this.#render();
  }

  #render(): void {
    if (this.#isPaused) return;
    const fresh = this.#frames.newest.filter(({ number }) => number > this.#shown);
    this.#shown = fresh[0]?.number ?? this.#shown;
    this.#list.prepend(...fresh.map(frameItem));
    while (this.#list.childElementCount > MAX_FRAMES) this.#list.lastElementChild?.remove();
  }

  #lines(): string {
    return Array.from(this.#list.children, (item) =>
      ['frame-time', 'frame-size', 'frame-text'].map((name) => part(item, name, HTMLElement).textContent).join('  '),
    ).join('\n');
  }

  #showView(): void {
    const view = this.#views.querySelector<HTMLInputElement>('input:checked')?.value ?? 'frames';
    const isSnippet = view !== 'frames';
    part(this.#drawer, 'frames-view', HTMLElement).hidden = isSnippet;
    part(this.#drawer, 'snippet-view', HTMLElement).hidden = !isSnippet;
    if (isSnippet)
      part(this.#drawer, 'snippet', HTMLElement).textContent = snippets[view as SnippetName](location.origin);
  }
}

function frameItem({ at, bytes, text }: Frame): HTMLElement {
  const item = stamp('frame');
  const milliseconds = String(at % 1000).padStart(3, '0');
  part(item, 'frame-time', HTMLElement).textContent = `${formatTime(Math.floor(at / 1000))}.${milliseconds}`;
  part(item, 'frame-size', HTMLElement).textContent = `${bytes.toLocaleString('en-US')} B`;
  part(item, 'frame-text', HTMLElement).textContent = text;
  return item;
}
