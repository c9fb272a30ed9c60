import { Sender } from 'ws';

declare module 'ws' {
  /** Public and exported, but missing in the type definitions. */
  const Sender: {
    frame(
      data: Buffer,
      options: { fin: boolean; opcode: number; mask: boolean; readOnly: boolean; rsv1: boolean },
    ): Buffer[];
  };
}

const TEXT = 1;

/** What was framed last: a crowd that joins at once gets the same snapshot, client by client. */
let latest = { text: '', frame: frame('') };

/** The bytes of one text frame from server to client, the same for every client; not to be changed. */
export function textFrame(text: string): Buffer {
  if (text !== latest.text) latest = { text, frame: frame(text) };
  return latest.frame;
}

function frame(text: string): Buffer {
  const options = { fin: true, opcode: TEXT, mask: false, readOnly: true, rsv1: false };
  return Buffer.concat(Sender.frame(Buffer.from(text), options));
}
