import { Sender } from 'ws';

declare module 'ws' {
  /** Exported by `ws`, but missing from its type definitions. */
  const Sender: {
    frame(
      data: Buffer,
      options: { fin: boolean; opcode: number; mask: boolean; readOnly: boolean; rsv1: boolean },
    ): Buffer[];
  };
}

const TEXT = 1;

// Cached, because clients that connect at the same time receive the same text.
let latest = { text: '', frame: frame('') };

/** Encodes a text frame. Callers must not modify the returned buffer, because it is cached. */
export function textFrame(text: string): Buffer {
  if (text !== latest.text) latest = { text, frame: frame(text) };
  return latest.frame;
}

function frame(text: string): Buffer {
  const options = { fin: true, opcode: TEXT, mask: false, readOnly: true, rsv1: false };
  return Buffer.concat(Sender.frame(Buffer.from(text), options));
}
