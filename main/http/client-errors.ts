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
 * Answers malformed and timed-out requests with an error, after all earlier responses of the connection. Destroys the socket
 * if these responses, or then the client's closing of its side, take longer than `closingMs` milliseconds.
 */
export function answerClientErrors(server: Server, order: RequestOrder, closingMs: () => number): void {
  /** Connections that had an error. Further errors on them are ignored. */
  const broken = new WeakSet<Duplex>();
  server.on('clientError', (error, socket) => {
    if (broken.has(socket)) return;
    broken.add(socket);
    const outstanding = [...order.outstanding(socket)];
    const end = () => {
      // Sends no error response if an earlier response is unfinished, because the error would be written into its middle.
      if (outstanding.some(({ headersSent, writableFinished }) => headersSent && !writableFinished)) socket.destroy();
      else endWithError(error, socket, closingMs());
    };
    // Waits for the responses to complete requests, because the client would take the error for the response to one of them.
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
  // Destroys the socket later: while the client is still sending, this causes a TCP reset, which discards the response.
  const timer = setTimeout(() => socket.destroy(), closingMs).unref();
  socket.once('close', () => clearTimeout(timer));
}
