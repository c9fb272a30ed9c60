/** Preloaded into a program. Moves the clock of every thread ahead by `CLOCK_SHIFT_MS`. */
const RealDate = Date;
const shift = Number(process.env.CLOCK_SHIFT_MS);

globalThis.Date = class extends RealDate {
  constructor(...args: [] | [number]) {
    super(...((args.length === 0 ? [RealDate.now() + shift] : args) as [number]));
  }

  static override now(): number {
    return RealDate.now() + shift;
  }
} as DateConstructor;
