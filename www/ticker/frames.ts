export interface Frame {
  /** Sequence number, 1 for the first frame since the page was opened. */
  number: number;
  /** Time at which the page received the frame, in milliseconds since the epoch. */
  at: number;
  /** Size of the whole payload, of which `text` may contain only the first part. */
  bytes: number;
  text: string;
}

export const MAX_FRAMES = 50;
export const MAX_CHARACTERS = 16_384;

const encoder = new TextEncoder();

/** The newest {@link MAX_FRAMES} frames. Older frames are evicted. */
export class Frames {
  readonly #frames: Frame[] = [];
  #count = 0;

  add(text: string, at: number): void {
    const { length: bytes } = encoder.encode(text);
    this.#frames.unshift({ number: ++this.#count, at, bytes, text: text.slice(0, MAX_CHARACTERS) });
    if (this.#frames.length > MAX_FRAMES) this.#frames.pop();
  }

  get newest(): readonly Frame[] {
    return this.#frames;
  }
}
