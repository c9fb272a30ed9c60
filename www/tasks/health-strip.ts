import { part, stamp } from '../shared/dom.ts';
import { resumeQueue } from './board-api.ts';
import type { Health } from './health.ts';
import { type Notice, noticesOf } from './health-notices.ts';

const whole = new Intl.NumberFormat('en-US');

/** Strip with the queue's figures, and notices if the queue is full, paused or stalled. */
export class HealthStrip {
  readonly #strip = part(document, 'health', HTMLElement);
  readonly #notices = part(this.#strip, 'health-notices', HTMLElement);
  readonly #onResume: () => void;
  #shown = '';

  /** @param onResume called after the user has resumed the queue */
  constructor(onResume: () => void) {
    this.#onResume = onResume;
  }

  /** @param isCurrent whether the service can be reached. Otherwise the figures are marked as outdated */
  show(health: Health | undefined, isCurrent: boolean): void {
    this.#strip.toggleAttribute('data-outdated', !isCurrent);
    if (health === undefined) return;
    this.#strip.dataset.condition = health.stalled !== null || health.paused || health.full ? 'warning' : 'normal';
    for (const [name, text] of Object.entries(figuresOf(health))) {
      const element = part(this.#strip, `health-${name}`, HTMLElement);
      if (element.textContent !== text) element.textContent = text;
    }
    const meter = part(this.#strip, 'health-room', HTMLMeterElement);
    meter.value = usedShare(health);
    this.#showNotices(isCurrent ? noticesOf(health, location.origin) : []);
  }

  #showNotices(notices: Notice[]): void {
    const version = JSON.stringify(notices);
    if (version === this.#shown) return;
    this.#shown = version;
    this.#notices.replaceChildren(...notices.map((notice) => this.#render(notice)));
  }

  #render({ kind, problem, advice }: Notice): HTMLElement {
    const element = stamp('health-notice');
    element.dataset.kind = kind;
    part(element, 'problem', HTMLElement).textContent = problem;
    part(element, 'advice', HTMLElement).textContent = advice;
    const resume = part(element, 'resume-queue', HTMLButtonElement);
    resume.hidden = kind !== 'paused';
    resume.addEventListener('click', () => void this.#resume(resume, part(element, 'resume-error', HTMLElement)));
    return element;
  }

  async #resume(button: HTMLButtonElement, error: HTMLElement): Promise<void> {
    button.disabled = true;
    error.textContent = '';
    try {
      await resumeQueue();
      this.#onResume();
    } catch (cause) {
      error.textContent = (cause as Error).message;
    } finally {
      button.disabled = false;
    }
  }
}

function figuresOf(health: Health): Record<string, string> {
  const { waiting, running, retrying, dead, perSecond, oldestAgeSeconds, threads } = health;
  return {
    waiting: whole.format(waiting),
    running: whole.format(running),
    retrying: whole.format(retrying),
    dead: whole.format(dead),
    rate: perSecond === undefined ? '–' : `${formatRate(perSecond)} / s`,
    oldest: oldestAgeSeconds === null ? 'none' : formatDuration(oldestAgeSeconds),
    threads: `${threads.busy} of ${threads.total}`,
  };
}

/** Returns the used share of the queue's limits, from 0 to 1. */
function usedShare({ waiting, running, retrying, bytes, limits }: Health): number {
  return Math.min(1, Math.max((waiting + running + retrying) / limits.length, bytes / limits.bytes));
}

function formatRate(perSecond: number): string {
  return perSecond === 0 || perSecond >= 10 ? whole.format(Math.round(perSecond)) : perSecond.toFixed(1);
}

function formatDuration(seconds: number): string {
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}
