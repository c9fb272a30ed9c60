/** Listeners of {@link TabGroup}. */
export interface GroupListeners<Message> {
  /** Called when this tab becomes the leader or stops being the leader without a call of `leave`. */
  onLead(leads: boolean): void;
  /** Called with each message of another tab. */
  onMessage(message: Message): void;
}

/**
 * Browser tabs that elect one leader and send each other messages. The leader holds a Web Lock, so that another tab
 * becomes the leader as soon as the leader leaves, closes or crashes. Without Web Locks, which need HTTPS or localhost,
 * each tab is the leader of a group of its own.
 */
export class TabGroup<Message> {
  readonly #listeners: GroupListeners<Message>;
  #name: string | undefined;
  #channel: BroadcastChannel | undefined;
  /** Cancels the request for the lock. */
  #request: AbortController | undefined;
  /** Releases the lock. Undefined unless this tab is the leader. */
  #release: (() => void) | undefined;

  constructor(listeners: GroupListeners<Message>) {
    this.#listeners = listeners;
  }

  get isLeader(): boolean {
    return this.#release !== undefined;
  }

  /** Joins the group `name`. Does nothing if the tab is already a member of a group. */
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

  /** Sends a message to the other tabs of the group. */
  send(message: Message): void {
    this.#channel?.postMessage(message);
  }

  /** Makes this tab the leader in place of a tab that no longer responds. */
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
    // A request that steals the lock cannot have a signal.
    const signal = options.steal ? {} : { signal: request.signal };
    navigator.locks.request(name, { ...options, ...signal }, lead).catch(() => {
      // The request was cancelled, or another tab has stolen the lock.
      if (this.#request !== request) return;
      this.#release = undefined;
      this.#listeners.onLead(false);
      this.#campaign(name, {});
    });
  }
}
