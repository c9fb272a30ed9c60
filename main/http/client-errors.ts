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
 * Sends an error response to malformed and timed-out requests.
 *
 * @param closingMs returns the milliseconds to wait for earlier responses, and for the client to close the connection
 */
export function answerClientErrors(server: Server, order: RequestOrder, closingMs: () => number): void {
  const broken = new WeakSet<Duplex>();
  server.on('clientError', (error, socket) => {
    if (broken.has(socket)) return;
    broken.add(socket);
    const outstanding = [...order.outstanding(socket)];
    const end = () => {
      // If an earlier response is only partly sent, an error response would become part of that response's body.
      if (outstanding.some(({ headersSent, writableFinished }) => headersSent && !writableFinished)) socket.destroy();
      else endWithError(error, socket, closingMs());
    };
    // The error response must follow the responses to complete requests and the responses already begun, or the client
    // would assign the error to a wrong request.
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
  // Destroying the socket while the client is sending would cause a TCP reset, which discards the error response.
  const timer = setTimeout(() => socket.destroy(), closingMs).unref();
  socket.once('close', () => clearTimeout(timer));
}
