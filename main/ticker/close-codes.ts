/** Why the server closes a WebSocket, and whether a client does well to connect again. */
export interface CloseCode {
  code: number;
  reason: string;
  reconnect: boolean;
}

/** Every code that the server closes a WebSocket with. A client that stays silent is cut off without one. */
export const closeCodes = {
  shuttingDown: { code: 1001, reason: 'server is shutting down', reconnect: true },
  /** Sent by the WebSocket library: a frame that breaks the protocol. */
  protocolError: { code: 1002, reason: '', reconnect: false },
  /** Sent by the WebSocket library: a text frame that is not UTF-8. */
  invalidText: { code: 1007, reason: '', reconnect: false },
  /** Sent by the WebSocket library: a message in too many fragments, or in pieces that are too small. */
  tooManyFragments: { code: 1008, reason: '', reconnect: false },
  /** Sent by the WebSocket library: a message over the size limit. */
  messageTooBig: { code: 1009, reason: '', reconnect: false },
  tokenRevoked: { code: 4001, reason: 'token revoked', reconnect: false },
  /** Only where `TOKEN_EXPIRY_CLOSES` asks for it. */
  tokenExpired: { code: 4003, reason: 'token expired', reconnect: false },
  handlerFailed: { code: 1011, reason: 'handler failed', reconnect: true },
  /** One that goes on would only be closed again. */
  tooManyMessages: { code: 4029, reason: 'too many messages', reconnect: false },
  tooSlow: { code: 4008, reason: 'client reads too slowly', reconnect: true },
} as const satisfies Record<string, CloseCode>;
