import { CounterByLabel } from '../metrics/counter-by-label.ts';

/** Counters of all connections of the price stream. */
export class StreamMetrics {
  /** Text frames written to sockets. */
  framesSent = 0;
  /** Ticks not sent to slow clients because a newer tick replaced them. */
  framesSkipped = 0;
  /** Handshakes by outcome: `accepted`, or the reason for the failure. */
  readonly upgrades = new CounterByLabel(['accepted']);
  /** Closed connections by close code. */
  readonly closes = new CounterByLabel();
}
