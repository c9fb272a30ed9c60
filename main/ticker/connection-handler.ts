import { isObject } from '../../workers/shared/json-object.ts';
import { NUMBERED_PROTOCOL } from './auth.ts';
import type { NumberedStream } from './numbered-stream.ts';
import { closeCodes, type LifecycleMessage, type Pid, type PidRegistry, type WsSend } from './pid-registry.ts';
import type { RemovalReason } from './token-store.ts';

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

export const TICKER = 'ticker';

/** Starts the handler of a WebSocket connection. @param actorId `user:<user_id>` */
export function createHandler(actors: PidRegistry, actorId: string, numbered: NumberedStream): Pid {
  return actors.spawn('handler', (pid) => {
    let client: Pid | undefined;
    let isNumbered = false;
    return {
      receive(message: LifecycleMessage): void {
        switch (message.topic) {
          case 'ws.join':
            client = message.client_pid;
            isNumbered = message.protocol === NUMBERED_PROTOCOL;
            if (isNumbered) {
              actors.send(client, text({ type: 'welcome', user_id: actorId, ...numbered.description }));
              numbered.join(pid, client);
              break;
            }
            actors.send(client, text({ type: 'welcome', user_id: actorId }));
            actors.send(TICKER, { topic: 'subscribe', client_pid: client, handler_pid: pid });
            break;
          case 'ws.message':
            if (client !== undefined) handleMessage(client, message.data);
            break;
          case 'ws.leave':
            actors.send(TICKER, { topic: 'unsubscribe', handler_pid: pid });
            actors.exit(pid, 'normal');
        }
      },
    };

    function handleMessage(client: Pid, data: string): void {
      const message = parseClientMessage(data);
      if ('type' in message && message.type === 'ping') {
        actors.send(client, pong);
        return;
      }
      // `ticker.v1` has no other messages.
      if (!isNumbered) return;
      if ('error' in message) {
        actors.send(client, text({ type: 'error', error: streamErrors[message.error] }));
      } else if (message.type === 'resume') {
        numbered.resume(pid, client, message.epoch, message.seq);
      } else {
        const symbol = numbered.subscribe(pid, client, message.symbols);
        if (symbol !== undefined)
          actors.send(client, text({ type: 'error', error: streamErrors.unknownSymbol, symbol }));
      }
    }
  });
}

function text(message: { type: 'welcome' | 'pong' | 'error' } & Record<string, unknown>): WsSend {
  return { topic: 'ws.send', type: 'text', data: JSON.stringify(message) };
}

const pong = text({ type: 'pong' });

export type HandlersByToken = ReturnType<typeof createHandlersByToken>;

/** Ends handlers when the token that their client presented is revoked or expires. */
export function createHandlersByToken(actors: PidRegistry) {
  const byToken = new Map<string, Set<Pid>>();
  return {
    get size(): number {
      return byToken.size;
    },
    add(tokenId: string, handler: Pid): void {
      const handlers = byToken.get(tokenId) ?? new Set();
      byToken.set(tokenId, handlers.add(handler));
      const onExit = () => {
        handlers.delete(handler);
        if (handlers.size === 0) byToken.delete(tokenId);
      };
      actors.monitor(handler, { onExit });
    },
    end(tokenId: string, end: RemovalReason): void {
      const reason = end === 'token revoked' ? closeCodes.tokenRevoked : closeCodes.tokenExpired;
      for (const handler of [...(byToken.get(tokenId) ?? [])]) actors.exit(handler, reason);
    },
  };
}
