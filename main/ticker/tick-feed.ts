/** One update of all prices, as published to other nodes. */
export interface Tick {
  /** Comma-separated names of the symbols. Nodes with other symbols refuse the tick. */
  symbols: string;
  /** One price per symbol, in the order of `symbols`. */
  prices: readonly number[];
  data: string;
}

export interface TickFollower {
  /** Called with each tick from another node, which must be sent to this node's clients. */
  onTick(tick: Tick): void;
  /** Called with the last stored tick. The ticker continues from its prices, but must not send the tick to clients. */
  onPrices(tick: Tick): void;
}

/** Connects the tickers of several nodes. Only the leader makes ticks. Other nodes receive each tick at most once. */
export interface TickFeed {
  /** Float64Array with this node's lease expiry (monotonic clock, ms); in the past if the node has no lease. */
  readonly lease: SharedArrayBuffer;
  readonly isLeader: boolean;
  follow(follower: TickFollower): void;
  /** Acquires and renews the lease if `wanted` is true, otherwise releases the lease. */
  setLeaseWanted(wanted: boolean): void;
  /** Publishes a tick. @returns false if this node's lease has expired and the tick must be discarded */
  publish(tick: Tick): boolean;
  /** Releases the lease and stops receiving ticks. */
  close(): Promise<void>;
}
