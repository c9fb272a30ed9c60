/** What most people write: `ws`, and a loop over its clients. No authentication. */
import { createServer } from 'node:http';
import { WebSocketServer } from 'ws';
import { everySecond, tellPort, tickText } from './prices.ts';

const http = createServer();
const server = new WebSocketServer({ server: http, perMessageDeflate: false });
everySecond(() => {
  const text = tickText();
  for (const client of server.clients) client.send(text);
});
tellPort(http, 10_000);
