import { type ServerResponse, STATUS_CODES } from 'node:http';
import { type ErrorName, HttpError } from './errors.ts';
import { jsonText } from './json-reply.ts';
import { apiHeaders } from './security-headers.ts';

/** Returns a complete HTTP response as text, with a JSON body and `Connection: close`. */
export function rawResponse(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): string {
  const text = jsonText(body);
  const all = Object.entries({ ...headersOf(text), ...headers });
  const head = all.map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head.join('')}\r\n${text}`;
}

/** Sends an error response to a request that is not passed to the app, and closes the connection. */
export function refuse(response: ServerResponse, error: ErrorName): void {
  const { status, message } = new HttpError(error);
  const text = jsonText({ error: message });
  response.writeHead(status, headersOf(text)).end(text);
}

function headersOf(text: string) {
  const type = 'application/json; charset=utf-8';
  return { ...apiHeaders, 'Content-Type': type, 'Content-Length': Buffer.byteLength(text), Connection: 'close' };
}
