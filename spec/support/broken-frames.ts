import { once } from 'node:events';
import { connect } from 'node:net';
import { expect } from 'chai';
import fc from 'fast-check';
import { closeCodes } from '../../main/ticker/pid-registry.ts';
import { checkFrame } from './contract.ts';
import { handshake, head } from './raw-connection.ts';

const CLOSE = 8;
const NORMAL = 1000;

const text = (...texts: string[]) => fc.constantFrom(...texts).map((each) => new TextEncoder().encode(each));

const payloads = fc.oneof(
  text('{"type":"ping"}'),
  text('{"type":"pong"}', '[', '"', ''),
  fc.uint8Array({ maxLength: 20 }),
  fc.uint8Array({ minLength: 100, maxLength: 200 }),
  fc.uint8Array({ minLength: 4000, maxLength: 5000 }),
  // Payload of a close frame: a valid or invalid code, and a reason.
  fc.tuple(fc.integer({ min: 0, max: 0xffff }), fc.uint8Array({ maxLength: 130 })).map(([code, reason]) => {
    return Uint8Array.from([code >> 8, code & 0xff, ...reason]);
  }),
);

/** Yields `usual` nine times out of ten, so that most sequences continue after their first frame. */
const mostly = <T, U>(usual: T, arbitrary: fc.Arbitrary<U>): fc.Arbitrary<T | U> =>
  fc.oneof({ weight: 9, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary });

const frames = fc.record({
  fin: fc.oneof({ weight: 4, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
  rsv: mostly(0, fc.integer({ min: 1, max: 7 })),
  opcode: fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom(1, 2, 9, 10) },
    { weight: 2, arbitrary: fc.constantFrom(0, CLOSE) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 15 }) },
  ),
  mask: fc.option(fc.uint8Array({ minLength: 4, maxLength: 4 }), { freq: 20, nil: undefined }),
  payload: payloads,
  /** Declared length if it differs from the payload's; encoded in 64 bits from 2^16 on. */
  length: mostly(undefined, fc.oneof(fc.bigInt({ min: 0n, max: 6000n }), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }))),
  /** Whether the length field is longer than necessary. */
  wide: fc.boolean(),
});

function encode({ fin, rsv, opcode, mask, payload, length, wide }: Attack['frames'][number]): Buffer {
  const declared = length ?? BigInt(payload.length);
  const size = declared > 0xffffn ? 127 : declared > 125n || wide ? 126 : Number(declared);
  const header = Buffer.alloc(2 + (size === 127 ? 8 : size === 126 ? 2 : 0));
  header[0] = (fin ? 0x80 : 0) | (rsv << 4) | opcode;
  header[1] = (mask === undefined ? 0 : 0x80) | size;
  if (size === 127) header.writeBigUInt64BE(declared, 2);
  else if (size === 126) header.writeUInt16BE(Number(declared), 2);
  if (mask === undefined) return Buffer.concat([header, payload]);
  return Buffer.concat([header, mask, payload.map((byte, index) => byte ^ (mask[index % 4] as number))]);
}

const shares = fc.integer({ min: 0, max: 1000 }).map((thousandths) => thousandths / 1000);

/** Hostile clients: their frames, the point where they stop, and the way they end the connection. */
export const attacks = fc.record({
  frames: fc.array(frames, { minLength: 1, maxLength: 20 }),
  /** Share of all bytes after which the client stops; undefined if it sends everything. */
  cut: fc.option(shares, { freq: 1, nil: undefined }),
  piece: fc.constantFrom(1, 7, 100, 1460, 1e6),
  end: fc.constantFrom('FIN', 'RST', 'close frame'),
});

export type Attack = typeof attacks extends fc.Arbitrary<infer Generated> ? Generated : never;

/** Runs an attack. Asserts that the server sent only valid frames, specified messages and documented close codes. */
export async function attack(port: number, token: string, { frames, cut, piece, end }: Attack): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1' }).setNoDelay();
  const chunks: Buffer[] = [];
  const answered = new Promise((resolve) => socket.once('data', resolve));
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', () => {});
  await once(socket, 'connect');

  const opening = Buffer.from(head(...handshake('/ws/ticker', token)));
  const all = Buffer.concat([opening, ...frames.map(encode)]);
  const bytes = cut === undefined ? all : all.subarray(0, Math.floor(cut * all.length));
  // Up to 50 small writes, then the rest in one write.
  let at = 0;
  for (let count = 0; count < 50 && at < bytes.length && socket.writable; count++, at += piece)
    await new Promise((resolve) => socket.write(bytes.subarray(at, at + piece), resolve));
  if (socket.writable && at < bytes.length) socket.write(bytes.subarray(at));
  // The server responds only to a complete handshake.
  if (bytes.length >= opening.length) await Promise.race([answered, closed]);
  if (end === 'RST') socket.resetAndDestroy();
  else if (end === 'FIN') socket.end();
  else socket.end(Buffer.from([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]));
  await closed;
  // The server echoes a client's own close code.
  const closing = frames.filter(({ opcode, payload }) => opcode === CLOSE && payload.length >= 2);
  const own = closing.map(({ payload }) => Buffer.from(payload).readUInt16BE(0));
  watch(Buffer.concat(chunks), [...own, ...Object.values(closeCodes).map(({ code }) => code), NORMAL]);
}

/** Checks everything that a client received after the handshake. The last frame may be truncated. */
function watch(received: Buffer, codes: number[]): void {
  const start = received.indexOf('\r\n\r\n') + 4;
  if (!received.toString('latin1').startsWith('HTTP/1.1 101 ')) return;
  for (let at = start; received.length - at >= 4; ) {
    const [first = 0, second = 0] = received.subarray(at);
    const from = at + (second === 126 ? 4 : 2);
    const to = from + (second === 126 ? received.readUInt16BE(at + 2) : second);
    if (to > received.length) return;
    const payload = received.subarray(from, to);
    if (first === 0x81) {
      checkFrame(payload.toString());
    } else if (first === (0x80 | CLOSE)) {
      if (payload.length > 0) expect(codes).to.include(payload.readUInt16BE(0));
    } else {
      expect(first, 'neither text, close, ping nor pong').to.be.oneOf([0x89, 0x8a]);
    }
    at = to;
  }
}
