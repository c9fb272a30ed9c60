import { connect } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { noteWire, serviceAt } from './contract-watch.ts';
import type { Sending } from './http-corpus.ts';
import { parseResponses } from './http-responses.ts';

/** Silence in milliseconds after which the client ends the connection. */
const SILENCE_MS = 30;

/** Sends bytes on a new connection and reads until it is closed. @returns the responses in latin1 */
export async function exchange(port: number, pieces: Sending): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  let wire = '';
  socket.on('error', () => {});
  socket.setEncoding('latin1').on('data', (text: string) => {
    wire += text;
  });
  let endedHere = false;
  socket.setTimeout(SILENCE_MS, () => {
    endedHere = true;
    socket.end();
  });
  for (const piece of pieces) {
    if (socket.destroyed) break;
    socket.write(piece);
    await setTimeout(0);
  }
  await closed;
  if (endedHere) wire = withoutOpenEnd(wire);
  noteWire(serviceAt(port), wire);
  return wire;
}

/**
 * Removes a last response whose body lasts until the end of the connection, because the client may have truncated it.
 */
function withoutOpenEnd(wire: string): string {
  const last = Math.max(0, wire.lastIndexOf('HTTP/1.1 '));
  const [head = ''] = wire.slice(last).split('\r\n\r\n');
  return /^(content-length|transfer-encoding):/im.test(head) ? wire : wire.slice(0, last);
}

/** Asserts that all responses are valid HTTP and that every error is one of the specification's. */
export function checkAnswers(wire: string): void {
  const { responses, rest } = parseResponses(wire);
  // A client that ends the connection, or sends after the server has ended it, may lose the end of the last response.
  expect(rest).to.match(/^$|^HTTP\/1\.1 /);
  for (const { status, headers, body } of responses) {
    if (status < 400) continue;
    expect(status, body).to.be.below(500);
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
    const { error, ...fields } = JSON.parse(body);
    expect(error).to.be.a('string').and.not.equal('');
    expect(Object.keys(fields), body).to.deep.equal(error === 'invalid query' ? ['parameter', 'detail'] : []);
  }
}
