/** Meanings of the WebSocket close codes that the service sends or browsers generate. */
export const CLOSE_WORDS: Readonly<Record<number, string>> = {
  1000: 'closed normally',
  1001: 'server is shutting down',
  1002: 'protocol error',
  1005: 'closed without a code',
  1006: 'connection lost or refused',
  1007: 'text was not valid UTF-8',
  1008: 'too many fragments or packets',
  1009: 'message too big',
  1011: 'handler failed',
  4001: 'token revoked',
  4003: 'token expired',
  4008: 'client reads too slowly',
  4029: 'too many messages',
};

/** Returns a close code with its meaning, such as `4001: token revoked`. */
export const describeClose = (code: number): string => `${code}: ${CLOSE_WORDS[code] ?? 'unknown code'}`;
