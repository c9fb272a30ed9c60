/** A tick as it goes from the node that made it to all others. */
export interface Tick {
  /** One a symbol, in the order of the thread. */
  prices: readonly number[];
  /** The JSON text that clients are sent. */
  data: string;
}

/** What a ticker is told by its feed. */
export interface TickFollower {
  /** Another node has made a tick: to be sent to this node's clients. */
  onTick(tick: Tick): void;
  /** Where the latest producer has left off: to go on from, and not to be sent. */
  onPrices(prices: readonly number[]): void;
}

/**
 * What makes the tickers of many nodes one: a single one, which holds a lease, makes the ticks, and all others relay them.
 * None is told twice, nor after a later one.
 */
export interface TickFeed {
  /**
   * A Float64Array of one cell in shared memory: until when this node's ticker makes the ticks, in milliseconds of the machine's
   * monotonic clock; in the past while another node does.
   */
  readonly lease: SharedArrayBuffer;
  /** Whether this node's ticker makes the ticks. */
  readonly leads: boolean;
  /** Names the one ticker that is told, from now on. */
  follow(follower: TickFollower): void;
  /** Says whether this node's ticker could make the ticks; one that cannot lets another one do it. */
  compete(able: boolean): void;
  /** Tells all other nodes of a tick. @returns false where the lease has run out meanwhile: then nobody is to see it */
  publish(tick: Tick): boolean;
  /** Lets go of the lease. */
  close(): Promise<void>;
}
