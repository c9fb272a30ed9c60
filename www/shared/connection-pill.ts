import { part } from './parts.ts';

/** What the pill shows. */
export interface Connection {
  /** Names the state; the stylesheet gives each its mark. */
  kind: 'connecting' | 'live' | 'stale' | 'reconnecting' | 'failing' | 'signed-out';
  /** The state in words, asked for again every second: it may count. */
  text: () => string;
  /** The state for screen readers, said once when the kind changes. */
  announcement: string;
}

/** The state of the page's connection, which is always in sight. */
export class ConnectionPill {
  readonly #pill = part(document, 'connection', HTMLElement);
  readonly #text = part(document, 'connection-text', HTMLElement);
  readonly #status = part(document, 'connection-status', HTMLElement);
  #connection: Connection | undefined;

  constructor() {
    setInterval(() => this.#write(), 1_000);
  }

  show(connection: Connection): void {
    const changed = connection.kind !== this.#connection?.kind;
    this.#connection = connection;
    this.#pill.dataset.state = connection.kind;
    this.#write();
    if (changed) this.#status.textContent = connection.announcement;
  }

  #write(): void {
    const text = this.#connection?.text();
    if (text !== undefined && text !== this.#text.textContent) this.#text.textContent = text;
  }
}

/** Whole seconds until `time` (milliseconds since the epoch), as a countdown shows them: it ends at 1. */
export function secondsUntil(time: number): number {
  return Math.max(1, Math.ceil((time - Date.now()) / 1000));
}
