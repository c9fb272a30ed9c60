import { part } from '../shared/dom.ts';
import { HealthStrip } from './health-strip.ts';
import { type LinkState, ServiceLink } from './service-link.ts';
import { Access } from './sign-in.ts';
import { StatusPill } from './status-pill.ts';
import type { Store } from './store.ts';

export interface ConnectionListeners {
  onConnected(): void;
  onSignedIn(): void;
}

/** Connects the store to the service, and shows the state of the connection and of the queue. */
export class BoardConnection {
  readonly #store: Store;
  readonly #listeners: ConnectionListeners;
  readonly #link: ServiceLink;
  readonly #access: Access;
  readonly #pill = new StatusPill();
  readonly #strip = new HealthStrip(() => this.now());
  readonly #retry = part(document, 'retry', HTMLButtonElement);

  constructor(store: Store, listeners: ConnectionListeners) {
    this.#store = store;
    this.#listeners = listeners;
    this.#link = new ServiceLink({
      onState: (state, earlier) => this.#onState(state, earlier),
      onStatus: store.setQueue,
      onEvents: store.apply,
      onGap: store.reload,
    });
    this.#access = new Access((userId) => {
      this.#link.start(userId);
      store.reload();
      listeners.onSignedIn();
    });
    store.subscribe(() => this.#render());
    this.#retry.addEventListener('click', () => this.now());
    for (const change of ['online', 'offline']) addEventListener(change, () => this.now());
    this.#link.start(this.#access.userId);
  }

  get isLive(): boolean {
    return this.#link.state.kind === 'live';
  }

  /** Requests the state of the queue without waiting for the next regular request. */
  now(): void {
    this.#link.now();
  }

  signOut(): void {
    this.#link.signOut();
  }

  #onState(state: LinkState, earlier: LinkState): void {
    document.body.dataset.connection = state.kind;
    this.#retry.hidden = state.kind !== 'offline' && state.kind !== 'failing';
    if (state.kind === 'signed-out') this.#access.ask();
    if (state.kind === 'live' && earlier.kind !== 'live') this.#listeners.onConnected();
    this.#store.requestRender();
  }

  #render(): void {
    const { health, problem } = this.#store;
    const { state: link } = this.#link;
    this.#pill.show({ link, health, problem });
    this.#strip.show(health, link.kind === 'live');
  }
}
