import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { type RawData, Sender, WebSocket } from 'ws';
import type { Clock } from '../../workers/shared/clock.ts';
import { TokenBucket } from '../http/rate-limit.ts';
import type { TurnLimit } from '../http/turn-limit.ts';
import { CounterByLabel } from '../metrics/metrics-table.ts';
import {
  type Actor,
  type CloseCode,
  closeCodes,
  type ExitReason,
  type LifecycleMessage,
  type Monitor,
  type Pid,
  type PidRegistry,
  type WsSend,
} from './pid-registry.ts';

export const clientTimeouts = {
  /** Time from an upgrade request to the end of its handshake. */
  handshakeMs: 10_000,
  /** Time that a slow client's socket may take to drain before the client is disconnected. */
  slowMs: 30_000,
  /** Time from a pong to the next ping, and from an unanswered ping to the disconnection. */
  pingMs: 30_000,
};

export type ClientTimeouts = typeof clientTimeouts;

/** Burst size: a client may send the messages of this many seconds at once. */
const BURST_SECONDS = 2;

export class StreamMetrics {
  framesSent = 0;
  /** Number of ticks not sent to slow clients because a newer tick replaced them. */
  framesSkipped = 0;
  /** Number of handshakes by outcome: `accepted`, or the reason for the failure. */
  readonly upgrades = new CounterByLabel(['accepted']);
  readonly closes = new CounterByLabel();
}

const PING_BYTES = 8;

/** Cost of a part of a replay: what a socket buffers before its client counts as slow, and one more message. */
const REPLAY_COST = 16 * 1024;

/** Tick to send. The ticks of `ticker.v2` have a number, `seq`, and the number of the tick before, `previousSeq`. */
export interface TickMessage extends WsSend {
  seq?: number;
  previousSeq?: number;
}

/** Message of a replay: a tick, or a gap that ends with the tick `seq`. */
export interface Replayed {
  data: string;
  seq: number;
}

/** Tick with the frame for the clients that got the previous tick. */
export interface EncodedTick extends TickMessage {
  frame: Buffer;
}

/** Part of the relay that its connections share. */
interface ConnectionOwner {
  readonly actors: Pick<PidRegistry, 'send'>;
  readonly replayTurns: Pick<TurnLimit, 'enter'>;
  readonly metrics: StreamMetrics;
  readonly maxMessagesPerSecond: number;
  readonly clock: Clock;
  onClose(connection: Connection, code: number): void;
}

/**
 * Server side of a WebSocket, and the actor of its client. A client is slow while its socket buffers more than the
 * high-water mark. The server does not read from a slow client and keeps only the newest tick, which it sends when the
 * socket drains.
 */
export class Connection extends WebSocket implements Actor, Monitor {
  // Set by `join`, because the `ws` library creates the connection.
  pid!: Pid;
  handler!: Pid;
  #socket!: Duplex;
  #owner!: ConnectionOwner;
  #tokens!: TokenBucket;
  #newestTick: EncodedTick | undefined;
  #seq = Number.NaN;
  /** Messages that precede the next tick. */
  #replay: Iterator<Replayed> | undefined;
  #slowSince: number | undefined;
  #unansweredPing: Buffer | undefined;
  #isFlooding = false;
  #sentCode: number | undefined;
  /** Start of the ping timeout: the last ping, pong, or end of a client's slowness. */
  #pingSince = 0;

  /** Called once, when the handshake is complete. */
  join(pid: Pid, handler: Pid, socket: Duplex, owner: ConnectionOwner): void {
    this.pid = pid;
    this.handler = handler;
    this.#socket = socket;
    this.#owner = owner;
    this.#pingSince = owner.clock.elapsed();
    this.#tokens = new TokenBucket(owner.maxMessagesPerSecond, BURST_SECONDS);
    // Shared by all connections, because closures for each of them would take 1 kB per client.
    this.on('message', this.#onMessage).on('ping', this.#onPing).on('pong', this.#onPong).on('close', this.#onClose);
    this.on('error', ignore);
  }

  receive(message: LifecycleMessage): void {
    if (message.topic === 'ws.send') this.#write(textFrame(message.data));
  }

  /** Sends an encoded tick. A slow client gets only the newest tick, because every tick contains all prices. */
  tick(tick: EncodedTick): void {
    if (this.#slowSince === undefined && this.#replay === undefined) {
      this.#writeTick(tick);
      return;
    }
    // A replay skips no tick, and neither does the same tick in another choice of symbols.
    const isSkipped = this.#replay === undefined && this.#newestTick !== undefined;
    if (isSkipped && (tick.seq === undefined || tick.seq !== this.#newestTick?.seq)) {
      this.#owner.metrics.framesSkipped += 1;
    }
    this.#newestTick = tick;
  }

  /** Sends messages instead of ticks, until there are no more. @param seq number of the last tick that the client has */
  replay(messages: Iterator<Replayed>, seq: number): void {
    this.#replay = messages;
    this.#seq = seq;
    if (this.#slowSince === undefined) this.#scheduleReplay();
  }

  /** Sends a ping when due, and disconnects a dead or slow client. Must be called about once a second. */
  check(now: number, { slowMs, pingMs }: ClientTimeouts): void {
    if (this.#slowSince !== undefined) {
      // A slow client has its own timeout and gets no pings, because the server would not read the pongs.
      if (now - this.#slowSince >= slowMs) this.closeWith(closeCodes.tooSlow);
    } else if (now - this.#pingSince >= pingMs) {
      if (this.#unansweredPing !== undefined) this.terminate();
      else this.#sendPing(now);
    }
  }

  /** Starts the closing handshake. The `ws` library terminates the connection if the client does not answer. */
  closeWith({ code, reason }: CloseCode): void {
    this.#newestTick = undefined;
    this.#replay = undefined;
    this.resume();
    this.close(code, reason);
  }

  override close(code?: number, reason?: string | Buffer): void {
    this.#sentCode ??= code;
    super.close(code, reason);
  }

  onExit(_handler: Pid, reason: ExitReason): void {
    this.closeWith(reason === 'normal' || reason instanceof Error ? closeCodes.handlerFailed : reason);
  }

  /** Waits for a turn, so that clients that resume again and again delay neither ticks nor other clients. */
  #scheduleReplay(): void {
    void this.#owner.replayTurns.enter(REPLAY_COST).then(() => this.#continueReplay());
  }

  /** Sends messages of the replay until the client is slow. */
  #continueReplay(): void {
    // Corked, so that the messages are sent together.
    this.#socket.cork();
    while (this.#replay !== undefined && this.#slowSince === undefined && this.readyState === WebSocket.OPEN) {
      const { value, done } = this.#replay.next();
      if (done) {
        this.#replay = undefined;
        this.#writeNewestTick();
        break;
      }
      this.#seq = value.seq;
      // Otherwise the newest tick is the answer to a `subscribe`, which follows the replay.
      if ((this.#newestTick?.seq ?? 0) <= value.seq) this.#newestTick = undefined;
      this.#write(textFrame(value.data));
    }
    this.#socket.uncork();
  }

  #onMessage(data: RawData, isBinary: boolean): void {
    if (!this.#takeToken()) return;
    this.#owner.actors.send(this.handler, { topic: 'ws.message', data: isBinary ? '' : data.toString() });
  }

  #onPing(data: Buffer): void {
    if (!this.#takeToken() || this.readyState !== WebSocket.OPEN) return;
    this.pong(data);
    if (this.#socket.writableNeedDrain) this.#becomeSlow();
  }

  #onPong(data: Buffer): void {
    if (!this.#takeToken() || !this.#unansweredPing?.equals(data)) return;
    this.#unansweredPing = undefined;
    this.#pingSince = this.#owner.clock.elapsed();
  }

  #onClose(code: number): void {
    // 1006 if the client has not answered the server's close frame, or has broken the protocol.
    this.#owner.onClose(this, code === 1006 ? (this.#sentCode ?? code) : code);
  }

  #sendPing(now: number): void {
    // Random bytes, so that a pong proves that the client has read everything sent before the ping.
    this.#unansweredPing = randomBytes(PING_BYTES);
    this.#pingSince = now;
    this.ping(this.#unansweredPing);
  }

  /** Applies the rate limit to a message, ping or pong. Returns whether to handle it. */
  #takeToken(): boolean {
    // One packet can contain thousands of frames, so all frames after the limit was exceeded are ignored.
    if (this.#isFlooding) return false;
    if (this.#tokens.take(this.#owner.clock.elapsed()) === 0) return true;
    this.#isFlooding = true;
    this.closeWith(closeCodes.tooManyMessages);
    // Reading stops without waiting for the client's close frame, so that the rest of the flood is not processed.
    this.pause();
    this.#socket.end();
    return false;
  }

  #write(frame: Buffer): void {
    if (this.readyState !== WebSocket.OPEN) return;
    this.#owner.metrics.framesSent += 1;
    if (!this.#socket.write(frame)) this.#becomeSlow();
  }

  #writeTick({ data, frame, seq, previousSeq }: EncodedTick): void {
    const isShared = seq === undefined || previousSeq === this.#seq;
    this.#write(isShared ? frame : textFrame(withSkipped(data, seq - this.#seq - 1)));
    if (seq !== undefined) this.#seq = seq;
  }

  #writeNewestTick(): void {
    const tick = this.#newestTick;
    this.#newestTick = undefined;
    if (tick !== undefined) this.#writeTick(tick);
  }

  #becomeSlow(): void {
    if (this.#slowSince !== undefined) return;
    this.#slowSince = this.#owner.clock.elapsed();
    this.#socket.once('drain', () => this.#onDrain());
    this.pause();
  }

  #onDrain(): void {
    this.#slowSince = undefined;
    if (this.#replay === undefined) this.#writeNewestTick();
    else this.#scheduleReplay();
    if (this.#slowSince === undefined && this.readyState === WebSocket.OPEN) {
      // Pongs were not read while the client was slow, so the ping timeout starts again.
      this.#pingSince = this.#owner.clock.elapsed();
      this.resume();
    }
  }
}

/** Ignores an error: the `ws` library then closes the connection with the appropriate code and emits `close`. */
function ignore(): void {}

declare module 'ws' {
  /** Exported by `ws`, but missing from its type definitions. */
  const Sender: {
    frame(
      data: Buffer,
      options: { fin: boolean; opcode: number; mask: boolean; readOnly: boolean; rsv1: boolean },
    ): Buffer[];
  };
}

/** Adds the number of ticks that were not sent before this one. */
function withSkipped(tick: string, skipped: number): string {
  return skipped > 0 ? `${tick.slice(0, -1)},"skipped":${skipped}}` : tick;
}

/** Encodes a tick for clients that got the previous one. */
export function encodeTick(tick: TickMessage): EncodedTick {
  const { data, seq = 0, previousSeq = 0 } = tick;
  return { ...tick, frame: textFrame(withSkipped(data, seq - previousSeq - 1)) };
}

const TEXT = 1;

/** Encodes a text frame. */
export function textFrame(text: string): Buffer {
  const options = { fin: true, opcode: TEXT, mask: false, readOnly: true, rsv1: false };
  return Buffer.concat(Sender.frame(Buffer.from(text), options));
}
