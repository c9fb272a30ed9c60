import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { type ClientOptions, WebSocket } from 'ws';
import { afterTest } from './cleanup.ts';
import { noteAnswer, noteFrame, serviceAt } from './contract-watch.ts';
import { Condition } from './until.ts';

// biome-ignore lint/suspicious/noExplicitAny: specs assert on single properties.
export type StreamMessage = { type: string } & Record<string, any>;

export type StreamClient = Awaited<ReturnType<typeof connect>>;

/**
 * Opens a WebSocket.
 * @throws {Error} with the status, headers and body of the response if that is anything but 101
 */
export async function connect(
  url: string,
  { token, protocols = [], ...options }: ClientOptions & { token?: string; protocols?: string[] } = {},
) {
  const headers = { ...options.headers, ...(token !== undefined && { Authorization: `Bearer ${token}` }) };
  const service = serviceAt(url);
  const request = { method: 'GET', path: new URL(url).pathname };
  const note = ({ statusCode: status = 0, headers }: IncomingMessage, body = '') => {
    noteAnswer(service, { request, status, headers: new Headers(headers as Record<string, string>), body });
  };
  const socket = new WebSocket(url, protocols, { ...options, headers });
  afterTest(() => socket.terminate());

  const messages: StreamMessage[] = [];
  const arrived = new Condition();
  socket.on('message', (data) => {
    const frame = data.toString();
    noteFrame(url, frame, socket.protocol);
    messages.push(JSON.parse(frame));
    arrived.changed();
  });
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.once('close', (code, reason) => {
      resolve({ code, reason: reason.toString() });
      arrived.changed();
    });
  });

  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    socket.once('upgrade', (answer) => {
      note(answer);
      socket.once('open', () => resolve(answer));
    });
    socket.on('error', reject);
    socket.once('unexpected-response', async (_request, answer) => {
      const body = await text(answer);
      note(answer, body);
      const { statusCode: status, headers } = answer;
      const isJson = headers['content-type']?.startsWith('application/json');
      const error = new Error(`refused with ${status} ${body}`);
      reject(Object.assign(error, { status, headers, body: isJson ? JSON.parse(body) : body }));
    });
  });

  const nextThat = (fits: (message: StreamMessage) => boolean): Promise<StreamMessage> =>
    arrived.found(() => {
      for (let message = messages.shift(); message !== undefined; message = messages.shift())
        if (fits(message)) return message;
      if (socket.readyState === WebSocket.CLOSED) throw new Error('the connection is closed');
      return undefined;
    });
  return {
    ...{ socket, response, closed },
    next: () => nextThat(() => true),
    /** Returns the next unread message of a type, and skips those before it. */
    nextOf: (type: string) => nextThat((message) => message.type === type),
  };
}
