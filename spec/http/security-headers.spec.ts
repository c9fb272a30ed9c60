import { expect } from 'chai';
import { type HttpResponse, request } from '../support/program.ts';
import { connectRaw, parseResponse } from '../support/raw-connection.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { startTasksServer } from '../tasks/http/tasks-server.ts';

const expected = {
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
};

function expectData({ headers }: HttpResponse, about: string): void {
  for (const [name, value] of Object.entries(expected)) expect(headers.get(name), `${about} ${name}`).to.equal(value);
}

describe('the headers of every answer', () => {
  it('prevent data from being rendered, sniffed or cached', async () => {
    const { url: tasks } = await startTasksServer();
    const { url: ticker, apiKey } = await startTickerBundle();
    const post = (body: string) => ({ method: 'POST', body });
    for (const [path, init] of [
      ['/tasks', {}],
      ['/tasks', post('{"action":"x"}')],
      ['/tasks', post('{')],
      ['/tasks/1', {}],
      ['/queue', {}],
      ['/dead-letters', {}],
      ['/nowhere', {}],
      ['/', { method: 'DELETE' }],
    ] as const) {
      expectData(await request(tasks + path, init), `${init} ${path}`);
    }
    for (const [path, init] of [
      ['/auth/token', post(JSON.stringify({ api_key: apiKey }))],
      ['/auth/token', post('{}')],
      ['/auth/token', {}],
      ['/ws/ticker', {}],
      ['/', { method: 'DELETE' }],
    ] as const) {
      expectData(await request(ticker + path, init), path);
    }
  });

  it('say what a page may do', async () => {
    const { url: tasks } = await startTasksServer();
    const { url: ticker } = await startTickerBundle();
    for (const url of [tasks, ticker]) {
      const { headers } = await request(`${url}/`);
      expect(headers.get('content-security-policy')).to.match(/^default-src 'none'; script-src 'self';/);
      expect(headers.get('x-content-type-options')).to.equal('nosniff');
      expect(headers.get('cache-control')).to.equal('no-cache');
    }
  });

  it('are there where no app has seen the request', async () => {
    const { port } = await startTasksServer();
    for (const lines of [['GARBAGE'], ['GET / HTTP/1.1', 'Expect: nonsense', 'Host: x'], ['GET / HTTP/1.1']]) {
      const { ended, socket } = await connectRaw(port, ...lines);
      socket.end();
      const { headers } = parseResponse(await ended);
      expect(headers).to.include('X-Content-Type-Options: nosniff').and.to.include('Cache-Control: no-store');
    }
  });
});
