/** A hidden tab leaves its group after this delay, so that a short visit to another browser tab has no effect. */
const GRACE_MS = 3_000;

interface GroupListeners<Message> {
  onJoin(): void;
  /** Called when this tab becomes the leader, and when it leaves the group or another tab replaces it as the leader. */
  onLead(leads: boolean): void;
  onMessage(message: Message): void;
}

/** Visible browser tabs that elect a leader by a Web Lock. In browsers without Web Locks, each tab is its own leader. */
export class TabGroup<Message> {
  readonly #listeners: GroupListeners<Message>;
  #name = '';
  #graceTimer: ReturnType<typeof setTimeout> | undefined;
  #channel: BroadcastChannel | undefined;
  /** Aborted when this tab leaves the group. Undefined unless it is in the group. */
  #membership: AbortController | undefined;
  /** Replaces the request for the lock that was made before. */
  #request = new AbortController();
  #isLeader = false;

  constructor(listeners: GroupListeners<Message>) {
    this.#listeners = listeners;
    document.addEventListener('visibilitychange', () => this.#onVisibility());
    addEventListener('pagehide', () => this.#leave());
    addEventListener('pageshow', () => this.#onVisibility());
  }

  get isMember(): boolean {
    return this.#membership !== undefined;
  }

  get isLeader(): boolean {
    return this.#isLeader;
  }

  /** Joins the group `name` whenever the page is visible. An empty name leaves the group. */
  enter(name: string): void {
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
    if (this.#membership !== undefined && !this.#isLeader) this.#campaign(this.#membership.signal, true);
  }

  #onVisibility(): void {
    clearTimeout(this.#graceTimer);
    if (document.visibilityState === 'visible') this.#join();
    else this.#graceTimer = setTimeout(() => this.#leave(), GRACE_MS);
  }

  #join(): void {
    if (this.#name === '' || this.#membership !== undefined) return;
    this.#membership = new AbortController();
    if (navigator.locks === undefined) {
      this.#isLeader = true;
    } else {
      this.#channel = new BroadcastChannel(this.#name);
      this.#channel.addEventListener('message', ({ data }) => this.#listeners.onMessage(data));
      this.#campaign(this.#membership.signal);
    }
    this.#listeners.onJoin();
    if (this.#isLeader) this.#listeners.onLead(true);
  }

  #leave(): void {
    clearTimeout(this.#graceTimer);
    if (this.#membership === undefined) return;
    this.#channel?.close();
    this.#channel = undefined;
    this.#isLeader = false;
    this.#membership.abort();
    this.#membership = undefined;
    this.#listeners.onLead(false);
  }

  /** Requests the lock, which this tab holds until it leaves the group or another tab steals the lock. */
  #campaign(left: AbortSignal, steal = false): void {
    this.#request.abort();
    this.#request = new AbortController();
    const signal = AbortSignal.any([left, this.#request.signal]);
    const lead = () => {
      if (signal.aborted) return undefined;
      this.#isLeader = true;
      this.#listeners.onLead(true);
      return new Promise((resolve) => left.addEventListener('abort', resolve));
    };
    // The Web Locks API rejects requests with both `steal` and `signal`.
    navigator.locks.request(this.#name, steal ? { steal } : { signal }, lead).catch(() => {
      if (signal.aborted) return;
      this.#isLeader = false;
      this.#listeners.onLead(false);
      this.#campaign(left);
    });
  }
}
