/** Socket.IO over WebSocket only, with its broadcast to all. No authentication. */
import { createServer } from 'node:http';
import { Server } from 'socket.io';
import { everySecond, tellPort, tickText } from './prices.ts';

const http = createServer();
const server = new Server(http, { transports: ['websocket'], serveClient: false });
everySecond(() => server.emit('tick', JSON.parse(tickText())));
tellPort(http, 10_000);
