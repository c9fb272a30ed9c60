import { isObject } from '../../workers/shared/json-object.ts';

/** Texts of the message `error`, which only `ticker.v2` sends. */
export const streamErrors = {
  invalidJson: 'invalid JSON',
  unknownType: 'type must be ping, subscribe or resume',
  invalidSymbols: 'symbols must be an array of strings',
  unknownSymbol: 'unknown symbol',
  invalidPosition: 'epoch and seq must be whole numbers from 0',
} as const;

/** Message of a client of `ticker.v2`. */
export type ClientMessage =
  | { type: 'ping' }
  /** All symbols if `symbols` is undefined. */
  | { type: 'subscribe'; symbols: readonly string[] | undefined }
  | { type: 'resume'; epoch: number; seq: number };

/** Returns the message, or its error. @param data text of a frame, empty for a binary frame */
export function parseClientMessage(data: string): ClientMessage | { error: keyof typeof streamErrors } {
  let message: unknown;
  try {
    message = JSON.parse(data);
  } catch {
    return { error: 'invalidJson' };
  }
  const { type, symbols, epoch, seq } = isObject(message) ? message : {};
  switch (type) {
    case 'ping':
      return { type };
    case 'subscribe':
      return symbols === undefined || isStrings(symbols) ? { type, symbols } : { error: 'invalidSymbols' };
    case 'resume':
      return isCount(epoch) && isCount(seq) ? { type, epoch, seq } : { error: 'invalidPosition' };
    default:
      return { error: 'unknownType' };
  }
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
