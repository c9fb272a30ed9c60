export interface CloseCode {
  code: number;
  reason: string;
  reconnect: boolean;
}

/** Close codes that the server sends to WebSocket clients. */
export const closeCodes = {
  shuttingDown: { code: 1001, reason: 'server is shutting down', reconnect: true },
  // The `ws` library sends the codes 1002, 1007, 1008 and 1009.
  protocolError: { code: 1002, reason: '', reconnect: false },
  invalidText: { code: 1007, reason: '', reconnect: false },
  tooManyFragments: { code: 1008, reason: '', reconnect: false },
  messageTooBig: { code: 1009, reason: '', reconnect: false },
  tokenRevoked: { code: 4001, reason: 'token revoked', reconnect: false },
  /** Sent only if `TOKEN_EXPIRY_CLOSES` is set. */
  tokenExpired: { code: 4003, reason: 'token expired', reconnect: false },
  handlerFailed: { code: 1011, reason: 'handler failed', reconnect: true },
  /** A client that reconnects with the same message rate would be disconnected again. */
  tooManyMessages: { code: 4029, reason: 'too many messages', reconnect: false },
  tooSlow: { code: 4008, reason: 'client reads too slowly', reconnect: true },
} as const satisfies Record<string, CloseCode>;
