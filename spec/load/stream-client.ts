import { connect, type Socket } from 'node:net';
import { handshake, head } from '../support/raw-connection.ts';

export interface StreamTarget {
  host: string;
  port: number;
  path: string;
  /** Token for `Authorization: Bearer …`. No header is sent if absent. */
  token?: string;
  /** Local address of the connection. Several addresses allow more clients than one address has ports. */
  localAddress?: string;
  /** Whether the client stops reading after the handshake, until `read` is called. */
  silent?: boolean;
  pingMs?: number;
}

export interface StreamEvents {
  onOpen(): void;
  /** Called with each text frame. `payload` is valid during the call only. */
  onText(payload: Buffer): void;
  /** Called at the end of the connection with a close code, a refusal (`HTTP 401`) or a system error (`ECONNRESET`). */
  onEnd(reason: string): void;
}

/** Long enough for a client that did not fit into the server's backlog and tries again. */
const HANDSHAKE_TIMEOUT_MS = 20_000;
const TEXT = 1;
const CLOSE = 8;
const PING = 9;
const PONG = 10;
/** Payload of the maximum size. */
const PING_PAYLOAD = Buffer.alloc(125);
/** Frame size at which a client disconnects. Frames of the stream are far smaller. */
const MAX_FRAME = 64 * 1024;

/** Shared read buffer of all clients, so that a frame in a single chunk needs no allocation. */
const inbox = Buffer.alloc(MAX_FRAME);

/** A minimal WebSocket client, so that thousands of them in one process do not distort the measurement. */
export class StreamClient {
  readonly #socket: Socket;
  readonly #events: StreamEvents;
  #open = false;
  #ended = false;
  #reads: boolean;
  /** Bytes of an incomplete handshake or frame. */
  #rest: Buffer | undefined;

  constructor(target: StreamTarget, events: StreamEvents) {
    const { host, port, path, token, localAddress, silent = false, pingMs } = target;
    this.#events = events;
    this.#reads = !silent;
    this.#socket = connect({
      host,
      port,
      ...(localAddress !== undefined && { localAddress }),
      onread: {
        buffer: inbox,
        callback: (length, buffer) => {
          this.#onData((buffer as Buffer).subarray(0, length));
          return this.#reads || !this.#open;
        },
      },
    });
    this.#socket.on('error', ({ code, message }: NodeJS.ErrnoException) => this.#end(code ?? message));
    this.#socket.on('close', () => this.#end('cut off'));
    this.#socket.setTimeout(HANDSHAKE_TIMEOUT_MS, () => this.#end('no answer'));
    if (pingMs !== undefined) {
      const pings = setInterval(() => this.#ping(), pingMs);
      this.#socket.once('close', () => clearInterval(pings));
    }
    const [request = '', , ...headers] = handshake(path, token);
    this.#socket.write(head(request, `Host: ${host}:${port}`, ...headers));
  }

  send(text: string): void {
    this.#socket.write(clientFrame(TEXT, Buffer.from(text)));
  }

  read(): void {
    this.#reads = true;
    this.#socket.resume();
  }

  destroy(): void {
    this.#ended = true;
    this.#socket.destroy();
  }

  #ping(): void {
    const isReady = this.#open && !this.#ended && this.#socket.writableLength === 0;
    if (isReady) this.#socket.write(clientFrame(PING, PING_PAYLOAD));
  }

  #onData(data: Buffer): void {
    let left = this.#rest === undefined ? data : Buffer.concat([this.#rest, data]);
    this.#rest = undefined;
    if (!this.#open) {
      const end = left.indexOf('\r\n\r\n');
      if (end < 0) {
        this.#rest = Buffer.from(left);
        return;
      }
      const status = left.toString('latin1', 9, 12);
      if (status !== '101') {
        this.#end(`HTTP ${status}`);
        return;
      }
      this.#open = true;
      this.#socket.setTimeout(0);
      this.#events.onOpen();
      left = left.subarray(end + 4);
    }
    while (!this.#ended && left.length >= 2) {
      const short = (left[1] as number) & 0x7f;
      const from = short === 126 ? 4 : 2;
      if (short === 127) {
        this.#end('a frame too large');
        return;
      }
      if (left.length < from) break;
      const to = from + (short === 126 ? left.readUInt16BE(2) : short);
      if (left.length < to) break;
      this.#onFrame((left[0] as number) & 0x0f, left.subarray(from, to));
      left = left.subarray(to);
    }
    if (left.length > 0 && !this.#ended) this.#rest = Buffer.from(left);
  }

  #onFrame(opcode: number, payload: Buffer): void {
    if (opcode === TEXT) this.#events.onText(payload);
    else if (opcode === PING) this.#socket.write(clientFrame(PONG, payload));
    else if (opcode === CLOSE) this.#end(`close code ${payload.length >= 2 ? payload.readUInt16BE(0) : 1005}`);
    else if (opcode !== PONG) this.#end(`a frame with opcode ${opcode}`);
  }

  #end(reason: string): void {
    if (this.#ended) return;
    this.destroy();
    this.#events.onEnd(reason);
  }
}

/** Encodes a client frame of at most 125 bytes, with a mask of zeros because clients must mask. */
function clientFrame(opcode: number, payload: Buffer): Buffer {
  return Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | payload.length, 0, 0, 0, 0]), payload]);
}
