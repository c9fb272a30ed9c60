/** A tick (one update of all prices) as published to other nodes. */
export interface Tick {
  /** Comma-separated names of the symbols. Nodes with different symbols refuse the tick. */
  symbols: string;
  /** One price per symbol, in the order of `symbols`. */
  prices: readonly number[];
  /** JSON message sent to the clients. */
  data: string;
}

export interface TickFollower {
  /** Called with each tick from another node, to be sent to this node's clients. */
  onTick(tick: Tick): void;
  /**
   * Called with the most recent tick, so that this node can continue from its prices. The tick is not sent to clients.
   */
  onPrices(tick: Tick): void;
}

/**
 * Connects the tickers of several nodes. Only the leader makes ticks. The other nodes receive each tick at most once
 * and in order.
 */
export interface TickFeed {
  /**
   * Float64Array of one element: expiry of this node's lease, in milliseconds of the monotonic clock. The time is in
   * the past if this node does not hold the lease.
   */
  readonly lease: SharedArrayBuffer;
  readonly isLeader: boolean;
  /** Sets the follower, which receives the ticks from other nodes. */
  follow(follower: TickFollower): void;
  /**
   * Acquires and renews the lease if `wanted` is true. Otherwise releases the lease.
   *
   * @param wanted whether this node's ticker can make ticks
   */
  setLeaseWanted(wanted: boolean): void;
  /** Publishes a tick. @returns false if this node's lease has expired and the tick must be discarded */
  publish(tick: Tick): boolean;
  /** Releases the lease and stops receiving ticks. */
  close(): Promise<void>;
}
