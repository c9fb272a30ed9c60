export interface GroupListeners<Message> {
  /** Called when this tab becomes the leader, and when another tab replaces this tab as the leader. */
  onLead(leads: boolean): void;
  onMessage(message: Message): void;
}

/** Browser tabs that elect a leader by a Web Lock. In browsers without Web Locks, each tab is its own leader. */
export class TabGroup<Message> {
  readonly #listeners: GroupListeners<Message>;
  #name: string | undefined;
  #channel: BroadcastChannel | undefined;
  #request: AbortController | undefined;
  /** Releases the Web Lock. Undefined unless this tab is the leader. */
  #release: (() => void) | undefined;

  constructor(listeners: GroupListeners<Message>) {
    this.#listeners = listeners;
  }

  get isLeader(): boolean {
    return this.#release !== undefined;
  }

  /** Joins the group `name`, unless the tab is already in a group. */
  join(name: string): void {
    if (this.#name !== undefined) return;
    this.#name = name;
    if (navigator.locks === undefined) {
      this.#release = () => {};
      this.#listeners.onLead(true);
      return;
    }
    this.#channel = new BroadcastChannel(name);
    this.#channel.addEventListener('message', ({ data }) => this.#listeners.onMessage(data));
    this.#campaign(name, {});
  }

  leave(): void {
    this.#name = undefined;
    this.#channel?.close();
    this.#channel = undefined;
    this.#request?.abort();
    this.#request = undefined;
    this.#release?.();
    this.#release = undefined;
  }

  send(message: Message): void {
    this.#channel?.postMessage(message);
  }

  /** Makes this browser tab the leader in place of a tab that no longer responds. */
  takeOver(): void {
    if (this.#name === undefined || this.isLeader || navigator.locks === undefined) return;
    this.#request?.abort();
    this.#campaign(this.#name, { steal: true });
  }

  #campaign(name: string, options: LockOptions): void {
    const request = new AbortController();
    this.#request = request;
    const lead = () => {
      if (request.signal.aborted) return undefined;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#release = resolve;
      this.#listeners.onLead(true);
      return promise;
    };
    // The Web Locks API rejects requests with both `steal` and `signal`.
    const signal = options.steal ? {} : { signal: request.signal };
    navigator.locks.request(name, { ...options, ...signal }, lead).catch(() => {
      // `leave` and `takeOver` replace `#request`. If `#request` is unchanged, another tab has stolen the lock.
      if (this.#request !== request) return;
      this.#release = undefined;
      this.#listeners.onLead(false);
      this.#campaign(name, {});
    });
  }
}
