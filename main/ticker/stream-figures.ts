import { Tally } from '../figures/tally.ts';

/** What happened to all connections of the stream so far. */
export class StreamFigures {
  /** Text frames handed to sockets, and ticks that a slow client did not get. */
  framesSent = 0;
  framesSkipped = 0;
  /** Handshakes by what became of them: `accepted`, or why not. */
  readonly upgrades = new Tally(['accepted']);
  /** Connections that ended, by their close code. */
  readonly closes = new Tally();
}
