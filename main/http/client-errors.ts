import type { Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ErrorName, HttpError } from './errors.ts';
import { rawResponse } from './raw-response.ts';
import type { RequestOrder } from './request-order.ts';

const errorNames: Record<string, ErrorName> = {
  HPE_HEADER_OVERFLOW: 'headersTooLarge',
  ERR_HTTP_REQUEST_TIMEOUT: 'requestTimeout',
};

/**
 * Answers malformed requests and those that time out, after all earlier responses of the connection. The client has `closingMs`
 * to close its side.
 */
export function answerClientErrors(server: Server, order: RequestOrder, closingMs: () => number): void {
  /** Connections with an error; later errors on them are ignored. */
  const broken = new WeakSet<Duplex>();
  server.on('clientError', (error, socket) => {
    if (broken.has(socket)) return;
    broken.add(socket);
    const outstanding = [...order.outstanding(socket)];
    const end = () => {
      // The error must not be written into the middle of another response.
      if (outstanding.some(({ headersSent, writableFinished }) => headersSent && !writableFinished)) socket.destroy();
      else endWithError(error, socket, closingMs());
    };
    // Complete requests are answered first, or the client would take this response for theirs.
    const last = outstanding.findLast(({ req, headersSent }) => req.complete || headersSent);
    if (last === undefined) return end();
    const timer = setTimeout(() => socket.destroy(), closingMs()).unref();
    last.once('close', () => {
      clearTimeout(timer);
      end();
    });
  });
}

function endWithError(error: NodeJS.ErrnoException, socket: Duplex, closingMs: number): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, message } = new HttpError(errorNames[error.code ?? ''] ?? 'badRequest');
  socket.end(rawResponse(status, { error: message }));
  // Destroyed with a delay, because a reset would discard the response if the client is still sending.
  const timer = setTimeout(() => socket.destroy(), closingMs).unref();
  socket.once('close', () => clearTimeout(timer));
}
