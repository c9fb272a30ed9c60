import type { Query } from '../../db/postgres/database.ts';
import { acquireLease, leaseState, renewLease } from '../../db/postgres/nodes.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import type { Log } from '../log/log.ts';

export interface LeaderOptions {
  link: { readonly isUp: boolean; readonly query: Query };
  /** Identifies this node in the lease. */
  owner: string;
  /** Called when this node acquires the lease, with the state that the last leader stored. */
  onTaken: (state: string | null) => void;
  /** Returns the state to store with the next renewal, or null to keep the stored state. */
  state: () => string | null;
  clock: Clock;
  log: Log;
}

/** Time after which the lease expires by the server's clock, unless it is renewed. */
export const LEASE_MS = 1_750;
/** Time for which the leader uses a lease. Shorter than {@link LEASE_MS}, so two leaders never overlap. */
const USE_MS = 1_500;
const RENEW_MS = 500;
/** Nodes poll the lease, because the server does not announce its expiry. */
const POLL_MS = 250;

/**
 * Lease held by at most one node, the leader. One row with owner, epoch and expiry, acquired and renewed by
 * compare-and-set.
 *
 * The leader counts the lease time from its request by its own monotonic clock, and the server from the later write by
 * its clock. So the lease expires on the leader first, however late an answer arrives and however long the leader
 * stands still, as long as the server's clock does not jump ahead by more than the difference of the two times. Should
 * it jump, the epochs decide: nodes refuse the ticks of an earlier leader, and that leader stops at the first tick of
 * the next.
 */
export class Leader {
  /** End of this node's lease in milliseconds of `process.hrtime`, which the ticker thread reads as well. */
  readonly cell = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  /**
   * Number of this node's last acquisition, higher than the epoch of any earlier leader. 0 after a release, and once
   * this node knows that another node owns the lease. Still positive after an expiry while the link is down.
   */
  epoch = 0;
  readonly #cell = new Float64Array(this.cell);
  readonly #options: LeaderOptions;
  /** End of this node's lease by its clock. */
  #until = 0;
  #isWanted = false;
  #isClosed = false;
  #cancelTimer = () => {};
  #update = Promise.resolve();

  constructor(options: LeaderOptions) {
    this.#options = options;
  }

  get isHeld(): boolean {
    return this.#until > this.#options.clock.now();
  }

  /** Returns the state that the last leader stored. */
  state(): Promise<string | null> {
    return leaseState(this.#options.link.query);
  }

  setWanted(isWanted: boolean): void {
    if (this.#isClosed || isWanted === this.#isWanted) return;
    this.#isWanted = isWanted;
    this.#updateNow();
  }

  /** Renews the lease now, so that a new state is stored early. */
  renew(): void {
    if (this.isHeld && this.#isWanted) this.#updateNow();
  }

  /** Stops using the lease. Called when another node holds it. */
  lose(): void {
    this.#use(0);
    this.epoch = 0;
  }

  /** Releases the lease, so that another node can acquire it at once. */
  async close(): Promise<void> {
    this.setWanted(false);
    this.#isClosed = true;
    await this.#update;
  }

  #updateNow(): void {
    this.#cancelTimer();
    // Updates run one at a time, because each depends on the result of the previous one.
    this.#update = this.#update.then(() => this.#acquireOrRelease());
  }

  async #acquireOrRelease(): Promise<void> {
    const { link, clock, log } = this.#options;
    if (!this.#isWanted) this.#use(0);
    try {
      if (link.isUp) await (this.#isWanted ? this.#acquire() : this.#release());
    } catch (error) {
      log.debug({ err: error }, 'the ticker lease could not be acquired, renewed or released');
    }
    this.#cancelTimer();
    if (this.#isWanted) {
      this.#cancelTimer = clock.timer(this.isHeld ? RENEW_MS : POLL_MS, () => this.#updateNow());
    }
  }

  async #acquire(): Promise<void> {
    const { link, owner, onTaken, clock, log } = this.#options;
    const requestedAt = clock.now();
    if (this.epoch > 0) {
      if (!(await this.#renew(LEASE_MS))) return this.lose();
    } else {
      const lease = await acquireLease(link.query, owner, LEASE_MS);
      if (lease === undefined) return;
      this.epoch = lease.epoch;
      onTaken(lease.state);
      log.info('this node is now the leader and makes the ticks');
    }
    if (this.#isWanted) this.#use(requestedAt + USE_MS);
  }

  async #release(): Promise<void> {
    const released = this.epoch > 0 ? this.#renew(0) : undefined;
    this.epoch = 0;
    await released;
  }

  #renew(durationMs: number): Promise<boolean> {
    const { link, owner, state } = this.#options;
    return renewLease(link.query, owner, { epoch: this.epoch, state: state() }, durationMs);
  }

  #use(until: number): void {
    const { clock } = this.#options;
    this.#until = until;
    this.#cell[0] = until === 0 ? 0 : Number(process.hrtime.bigint()) / 1e6 + until - clock.now();
  }
}
