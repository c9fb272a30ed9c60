import { once } from 'node:events';
import { get, type RequestListener, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type ListenOptions, listen } from '../../main/http/listener.ts';
import { afterTest } from './cleanup.ts';

/** Listens on a free port until the test ends. */
export async function serve(handle: RequestListener, options: Partial<ListenOptions> = {}) {
  const listener = await listen(handle, { host: '127.0.0.1', port: 0, ...options });
  const sockets = new Set<Socket>();
  listener.server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  afterTest(async () => {
    // The HTTP server does not close sockets that were upgraded to WebSockets.
    for (const socket of sockets) socket.destroy();
    if (listener.server.listening) await listener.close(Promise.resolve());
  });
  return { listener, url: `http://127.0.0.1:${listener.port}`, sockets };
}

export const fine: RequestListener = (_request, response) => response.end('fine');

export async function statusFrom(localAddress: string, port: number, path = '/'): Promise<number> {
  const [response] = await once(get({ host: '127.0.0.1', port, path, localAddress, agent: false }), 'response');
  return response.resume().statusCode;
}

/** Starts a listener that does not respond to its first request. `asked` resolves with that response. */
export async function serveSlowly(options: Partial<ListenOptions> = {}) {
  const asked = Promise.withResolvers<ServerResponse>();
  const server = await serve((_request, response) => asked.resolve(response), options);
  return { ...server, asked: asked.promise };
}
