import { expect } from 'chai';
import { connectRaw, parseResponse } from '../support/raw-connection.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { startTasksServer } from '../tasks/http/tasks-server.ts';

const BODY = '{"action":"x"}';

/**
 * Requests that a proxy may parse differently from the server behind it. Each is refused, and nothing after it is
 * read.
 */
const ambiguous: Record<string, string[]> = {
  'a length and chunks': ['Host: x', `Content-Length: ${BODY.length}`, 'Transfer-Encoding: chunked'],
  'chunks and a length': ['Host: x', 'Transfer-Encoding: chunked', `Content-Length: ${BODY.length}`],
  'two lengths': ['Host: x', 'Content-Length: 14', 'Content-Length: 15'],
  'a list of lengths': ['Host: x', 'Content-Length: 14, 15'],
  'a signed length': ['Host: x', 'Content-Length: +14'],
  'a length in hexadecimal': ['Host: x', 'Content-Length: 0xe'],
  'a length that is too large': ['Host: x', 'Content-Length: 99999999999999999999'],
  'chunked, not last': ['Host: x', 'Transfer-Encoding: chunked, identity'],
  'an unknown coding': ['Host: x', 'Transfer-Encoding: xchunked'],
  'a space before the colon': ['Host: x', 'Content-Length : 14'],
  'a folded header': ['Host: x', 'X-Folded: a', ' b', 'Content-Length: 14'],
  'a header without a name': ['Host: x', ': a', 'Content-Length: 14'],
  'a NUL in a header': ['Host: x', 'X-Nul: a\0b', 'Content-Length: 14'],
};

describe('a request that can be read in two ways', () => {
  for (const [what, lines] of Object.entries(ambiguous)) {
    it(`is refused by both services, and ends the connection: ${what}`, async () => {
      const { queue, port } = await startTasksServer();
      const { listener } = await startTickerBundle();
      for (const [path, at] of [
        ['/tasks', port],
        ['/auth/token', listener.port],
      ] as const) {
        const connection = await connectRaw(at, `POST ${path} HTTP/1.1`, ...lines);
        connection.socket.write(`${BODY}POST /tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n${BODY}`);
        const answers = await connection.ended;
        expect(answers.match(/HTTP\/1\.1 /g), path).to.have.length(1);
        const { status, body, headers } = parseResponse(answers);
        expect([status, body], path).to.deep.equal([400, '{"error":"bad request"}\n']);
        expect(headers, path).to.include('Connection: close').and.to.include('X-Content-Type-Options: nosniff');
      }
      expect((await queue.counts()).accepted).to.equal(0);
    });
  }

  it('is answered once where a line ends without a carriage return', async () => {
    const { port, queue } = await startTasksServer();
    const { socket, ended } = await connectRaw(port, 'GET /tasks HTTP/1.1', 'Host: x\nX-Next: y', 'Connection: close');
    socket.end();
    expect((await ended).match(/HTTP\/1\.1 /g)).to.have.length(1);
    expect((await queue.counts()).accepted).to.equal(0);
  });
});
