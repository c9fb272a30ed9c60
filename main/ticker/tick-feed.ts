/** A tick as published to other nodes. */
export interface Tick {
  /** One price for each symbol, in the order of `symbols` of `workers/price-walk`. */
  prices: readonly number[];
  /** JSON text sent to clients. */
  data: string;
}

export interface TickFollower {
  /** Called with each tick of another node, to be sent to this node's clients. */
  onTick(tick: Tick): void;
  /** Called with the previous leader's last prices, to continue from. They are not sent to clients. */
  onPrices(prices: readonly number[]): void;
}

/** Connects the tickers of several nodes. The leader makes the ticks. A follower receives each at most once, and in order. */
export interface TickFeed {
  /** Expiry of this node's lease in milliseconds of the monotonic clock, in the past without one: a Float64Array of one cell. */
  readonly lease: SharedArrayBuffer;
  readonly isLeader: boolean;
  /** Sets the only follower. */
  follow(follower: TickFollower): void;
  /** Acquires and renews the lease if `wanted`, because this node's ticker can make ticks. Otherwise releases the lease. */
  setLeaseWanted(wanted: boolean): void;
  /** Publishes a tick to the other nodes. @returns false if the lease has expired; the tick must then be discarded */
  publish(tick: Tick): boolean;
  /** Releases the lease. */
  close(): Promise<void>;
}
