import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, request } from 'node:http';
import { duplexPair, Readable } from 'node:stream';
import { json, text } from 'node:stream/consumers';
import type { Answer, Fetch } from '../../www/client/fetch.ts';

/** Returns a `fetch` for the client that passes requests to an app of this process, without a network connection. */
export function localFetch(handle: RequestListener): Fetch {
  const server = createServer(handle);
  return async ({ pathname: path, search }, { body, ...options }) => {
    const [client, connection] = duplexPair();
    client.once('close', () => connection.destroy());
    server.emit('connection', connection);
    const sent = request({ ...options, path: path + search, createConnection: () => client }).end(body);
    // After the response has begun, only its body reports an error.
    sent.on('error', () => {});
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const { statusCode: status = 0, headers } = response;
    return {
      ok: status < 300,
      status,
      headers: { get: (name) => headers[name.toLowerCase()]?.toString() ?? null },
      get body() {
        return Readable.toWeb(response) as Answer['body'];
      },
      text: () => text(response),
      json: () => json(response),
    };
  };
}
