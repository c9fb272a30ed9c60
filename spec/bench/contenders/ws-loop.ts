/** What most people write: `ws`, and a loop over its clients. No authentication. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';
import { everySecond, tickText } from './prices.ts';

const http = createServer();
const server = new WebSocketServer({ server: http, perMessageDeflate: false });
everySecond(() => {
  const text = tickText();
  for (const client of server.clients) client.send(text);
});
http.listen(0, '127.0.0.1', 10_000, () => console.log(JSON.stringify({ port: (http.address() as AddressInfo).port })));
