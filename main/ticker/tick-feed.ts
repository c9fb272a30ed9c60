/** A tick (one update of all prices), as it is published to other nodes. */
export interface Tick {
  /** One price for each symbol, in the order of `symbols` of `workers/symbols`. */
  prices: readonly number[];
  /** JSON text of the message to the clients. */
  data: string;
}

export interface TickFollower {
  /** Called with each tick of another node, which this node sends to its clients. */
  onTick(tick: Tick): void;
  /** Called with the prices of the last tick, so that this node's first tick continues from them. Clients do not receive them. */
  onPrices(prices: readonly number[]): void;
}

/** Connects the tickers of several nodes. Only the leader makes ticks. The other nodes receive each tick at most once, in order. */
export interface TickFeed {
  /** Float64Array of one cell: expiry of this node's lease in milliseconds of the monotonic clock, in the past without a lease. */
  readonly lease: SharedArrayBuffer;
  readonly isLeader: boolean;
  /** Sets the object that receives the ticks of other nodes. There is only one. */
  follow(follower: TickFollower): void;
  /** If `wanted`, acquires the lease and renews it. Otherwise releases it. Wanted while this node's ticker can make ticks. */
  setLeaseWanted(wanted: boolean): void;
  /** Publishes a tick to the other nodes. @returns false if this node's lease has expired; the tick must then be discarded */
  publish(tick: Tick): boolean;
  /** Releases the lease and stops receiving ticks. */
  close(): Promise<void>;
}
