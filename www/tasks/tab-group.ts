/** A hidden tab leaves its group after this delay, so that a short visit to another browser tab has no effect. */
const GRACE_MS = 3_000;

export interface GroupListeners<Message> {
  /** Called when this tab has joined the group, and when it has left. */
  onMember(isMember: boolean): void;
  /** Called when this tab becomes the leader, and when another tab replaces this tab as the leader. */
  onLead(leads: boolean): void;
  onMessage(message: Message): void;
}

/** Visible browser tabs that elect a leader by a Web Lock. In browsers without Web Locks, each tab is its own leader. */
export class TabGroup<Message> {
  readonly #listeners: GroupListeners<Message>;
  #name: string | undefined;
  #isMember = false;
  #graceTimer: ReturnType<typeof setTimeout> | undefined;
  #channel: BroadcastChannel | undefined;
  #request: AbortController | undefined;
  /** Releases the Web Lock. Undefined unless this tab is the leader. */
  #release: (() => void) | undefined;

  constructor(listeners: GroupListeners<Message>) {
    this.#listeners = listeners;
    document.addEventListener('visibilitychange', () => this.#onVisibility());
    addEventListener('pagehide', () => this.#leave());
    addEventListener('pageshow', () => this.#onVisibility());
  }

  get isMember(): boolean {
    return this.#isMember;
  }

  get isLeader(): boolean {
    return this.#release !== undefined;
  }

  /** Joins the group `name` whenever the page is visible. Undefined leaves the group. */
  enter(name: string | undefined): void {
    this.#leave();
    this.#name = name;
    if (document.visibilityState === 'visible') this.#join();
  }

  /** Leaves the group without delay if the page is hidden. */
  yield(): void {
    if (document.visibilityState === 'hidden') this.#leave();
  }

  send(message: Message): void {
    this.#channel?.postMessage(message);
  }

  /** Makes this browser tab the leader in place of a tab that no longer responds. */
  takeOver(): void {
    if (this.#name === undefined || !this.#isMember || this.isLeader || navigator.locks === undefined) return;
    this.#request?.abort();
    this.#campaign(this.#name, { steal: true });
  }

  #onVisibility(): void {
    clearTimeout(this.#graceTimer);
    if (document.visibilityState === 'visible') this.#join();
    else this.#graceTimer = setTimeout(() => this.#leave(), GRACE_MS);
  }

  #join(): void {
    if (this.#name === undefined || this.#isMember) return;
    this.#isMember = true;
    if (navigator.locks === undefined) {
      this.#release = () => {};
    } else {
      this.#channel = new BroadcastChannel(this.#name);
      this.#channel.addEventListener('message', ({ data }) => this.#listeners.onMessage(data));
      this.#campaign(this.#name, {});
    }
    this.#listeners.onMember(true);
    if (this.isLeader) this.#listeners.onLead(true);
  }

  #leave(): void {
    clearTimeout(this.#graceTimer);
    if (!this.#isMember) return;
    this.#isMember = false;
    this.#channel?.close();
    this.#channel = undefined;
    this.#request?.abort();
    this.#request = undefined;
    this.#release?.();
    this.#release = undefined;
    this.#listeners.onMember(false);
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
      // `#leave` and `takeOver` replace `#request`. If `#request` is unchanged, another tab has stolen the lock.
      if (this.#request !== request) return;
      this.#release = undefined;
      this.#listeners.onLead(false);
      this.#campaign(name, {});
    });
  }
}
