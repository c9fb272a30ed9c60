import { part, stamp } from '../shared/dom.ts';
import type { Health } from './health.ts';
import { type Notice, noticesOf } from './health-notices.ts';
import { queue } from './service.ts';

const whole = new Intl.NumberFormat('en-US');

const KINDS: readonly Notice['kind'][] = ['stalled', 'paused', 'full', 'module'];

export class HealthStrip {
  readonly #strip = part(document, 'health', HTMLElement);
  readonly #status = part(this.#strip, 'health-status', HTMLElement);
  readonly #notices = new Map(KINDS.map((kind) => [kind, this.#createNotice(kind)]));
  readonly #onResume: () => void;

  constructor(onResume: () => void) {
    this.#onResume = onResume;
    part(this.#strip, 'health-notices', HTMLElement).append(...this.#notices.values());
  }

  /** @param isCurrent false marks the figures as outdated */
  show(health: Health | undefined, isCurrent: boolean): void {
    this.#strip.toggleAttribute('data-outdated', !isCurrent);
    if (health === undefined) return;
    const isWarning = health.stalled !== null || health.paused || health.full || health.moduleProblem !== undefined;
    this.#strip.dataset.condition = isWarning ? 'warning' : 'normal';
    for (const [name, text] of Object.entries(figuresOf(health))) {
      write(part(this.#strip, `health-${name}`, HTMLElement), text);
    }
    const meter = part(this.#strip, 'health-room', HTMLMeterElement);
    meter.value = usedShare(health);
    this.#showNotices(isCurrent ? noticesOf(health, location.origin) : []);
  }

  /** Screen readers announce only new kinds of notices, because the texts of notices contain changing numbers. */
  #showNotices(notices: Notice[]): void {
    const added: string[] = [];
    for (const [kind, element] of this.#notices) {
      const notice = notices.find((each) => each.kind === kind);
      if (notice !== undefined) {
        if (element.hidden) added.push(notice.problem);
        write(part(element, 'problem', HTMLElement), notice.problem);
        write(part(element, 'advice', HTMLElement), notice.advice);
      } else {
        part(element, 'resume-error', HTMLElement).textContent = '';
      }
      element.hidden = notice === undefined;
    }
    if (added.length > 0 || notices.length === 0) write(this.#status, added.join(' '));
  }

  #createNotice(kind: Notice['kind']): HTMLElement {
    const element = stamp('health-notice');
    element.dataset.kind = kind;
    element.hidden = true;
    const resume = part(element, 'resume-queue', HTMLButtonElement);
    resume.hidden = kind !== 'paused';
    resume.addEventListener('click', () => void this.#resume(resume, part(element, 'resume-error', HTMLElement)));
    return element;
  }

  async #resume(button: HTMLButtonElement, error: HTMLElement): Promise<void> {
    button.disabled = true;
    error.textContent = '';
    try {
      await queue.resume();
      this.#onResume();
    } catch (cause) {
      error.textContent = (cause as Error).message;
    } finally {
      button.disabled = false;
    }
  }
}

function write(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

function figuresOf(health: Health): Record<string, string> {
  const { waiting, running, retrying, dead, perSecond, oldestAgeSeconds } = health;
  return {
    waiting: whole.format(waiting),
    running: whole.format(running),
    retrying: whole.format(retrying),
    dead: whole.format(dead),
    rate: perSecond === undefined ? '–' : `${formatRate(perSecond)} / s`,
    oldest: oldestAgeSeconds === null ? 'none' : formatDuration(oldestAgeSeconds),
    threads: formatThreads(health),
  };
}

function usedShare({ length, bytes, limits }: Health): number {
  return Math.min(1, Math.max(length / limits.length, bytes / limits.bytes));
}

function formatThreads({ threads: { busy, total, overlap }, limits }: Health): string {
  const atATime = Math.min(total * overlap, limits.prefetch);
  return `${busy} of ${total}${overlap > 1 ? `, ${whole.format(atATime)} tasks at a time` : ''}`;
}

function formatRate(perSecond: number): string {
  return perSecond === 0 || perSecond >= 10 ? whole.format(Math.round(perSecond)) : perSecond.toFixed(1);
}

function formatDuration(seconds: number): string {
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}
