import { part } from './dom.ts';

export interface Connection {
  kind: 'connecting' | 'live' | 'paused' | 'stale' | 'reconnecting' | 'offline' | 'failing' | 'signed-out';
  /** Called every second, because the text may contain a countdown. */
  text: () => string;
  /** Text that screen readers announce when `kind` changes. */
  announcement: string;
}

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

/** Returns the whole seconds until `time` (milliseconds since the epoch), at least 1. */
export function secondsUntil(time: number): number {
  return Math.max(1, Math.ceil((time - Date.now()) / 1000));
}
