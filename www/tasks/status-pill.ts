import { ServiceError } from '../client/errors.ts';
import { ConnectionPill } from '../shared/connection-pill.ts';
import { part } from '../shared/dom.ts';
import type { Health } from './health.ts';
import type { LinkState } from './service-link.ts';

export interface PillFacts {
  link: LinkState;
  health: Health | undefined;
  /** Error of the last request for the task list. */
  problem: Error | undefined;
}

export class StatusPill {
  readonly #pill = new ConnectionPill();
  readonly #element = part(document, 'connection', HTMLElement);
  readonly #lastEvent = part(this.#element, 'last-event', HTMLElement);
  readonly #queue = part(this.#element, 'queue-state', HTMLElement);
  #facts: PillFacts | undefined;

  constructor() {
    setInterval(() => this.#writeAge(), 1_000);
  }

  show(facts: PillFacts): void {
    this.#facts = facts;
    const { kind, text } = describeConnection(facts);
    const queue = describeQueue(facts);
    this.#element.dataset.queue = queue;
    write(this.#queue, queue === '' ? '' : `queue ${queue}`);
    this.#pill.show({ kind, text: () => text, announcement: queue === '' ? text : `${text}, queue ${queue}` });
    this.#writeAge();
  }

  #writeAge(): void {
    if (this.#facts !== undefined) write(this.#lastEvent, describeAge(this.#facts.link));
  }
}

function describeConnection({ link, problem }: PillFacts): { kind: LinkState['kind']; text: string } {
  const error = link.kind === 'live' && problem instanceof ServiceError ? problem.message : link.error;
  if (error !== undefined) return { kind: 'failing', text: `Service answers: ${error}` };
  const words = { connecting: 'Connecting', live: 'Live', offline: 'Offline', failing: 'Failing' };
  return { kind: link.kind, text: link.kind === 'signed-out' ? 'Signed out' : words[link.kind] };
}

/** Returns the state of the queue in a word, or an empty string if it is unknown. */
function describeQueue({ link, health }: PillFacts): string {
  if (link.kind !== 'live' || health === undefined) return '';
  if (health.stalled !== null) return 'stalled';
  if (health.paused) return 'paused';
  return health.full ? 'full' : 'running';
}

function describeAge({ kind, isStreaming, lastEventAt }: LinkState): string {
  if (kind === 'connecting' || kind === 'signed-out') return '';
  if (kind === 'live' && !isStreaming) return 'no event stream';
  if (lastEventAt === undefined) return 'no event yet';
  return `last event ${formatAge(Date.now() - lastEventAt)} ago`;
}

/** Formats an age as `under 1 s`, `12 s`, `3 min` or `2 h`. */
function formatAge(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 1) return 'under 1 s';
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`;
}

function write(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
