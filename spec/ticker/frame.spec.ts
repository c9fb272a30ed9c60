import { expect } from 'chai';
import fc from 'fast-check';
import { textFrame } from '../../main/ticker/frame.ts';
import { anyCharacter } from '../support/any-character.ts';

/** Decodes one unmasked frame of RFC 6455. */
function decode(frame: Buffer) {
  const short = frame.readUInt8(1) & 0x7f;
  const [length, start] =
    short === 127 ? [Number(frame.readBigUInt64BE(2)), 10] : short === 126 ? [frame.readUInt16BE(2), 4] : [short, 2];
  return {
    final: (frame.readUInt8(0) & 0x80) !== 0,
    reserved: frame.readUInt8(0) & 0x70,
    opcode: frame.readUInt8(0) & 0x0f,
    masked: (frame.readUInt8(1) & 0x80) !== 0,
    length,
    text: frame.subarray(start).toString(),
  };
}

function expectFrameOf(text: string) {
  expect(decode(textFrame(text))).to.deep.equal({
    final: true,
    reserved: 0,
    opcode: 1,
    masked: false,
    length: Buffer.byteLength(text),
    text,
  });
}

describe('a text frame', () => {
  it('is one final, unmasked text frame, whatever its text', () => {
    fc.assert(fc.property(fc.string({ unit: anyCharacter }), expectFrameOf));
  });

  it('has the length that its size asks for', () => {
    for (const length of [0, 125, 126, 65_535, 65_536, 100_000]) expectFrameOf('x'.repeat(length));
  });
});
