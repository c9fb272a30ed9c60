/** Socket.IO over WebSocket only, with its broadcast to all. No authentication. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from 'socket.io';
import { everySecond, tickText } from './prices.ts';

const http = createServer();
const server = new Server(http, { transports: ['websocket'], serveClient: false });
everySecond(() => server.emit('tick', JSON.parse(tickText())));
http.listen(0, '127.0.0.1', 10_000, () => console.log(JSON.stringify({ port: (http.address() as AddressInfo).port })));
