import { expect } from 'chai';
import { startServices } from '../support/program.ts';
import { connectRaw, parseResponse } from '../support/raw-connection.ts';

describe('the services on loopback', () => {
  it('answer to loopback names and ALLOWED_HOSTS only', async () => {
    const { ticker, tasks, admin } = await startServices({ env: { ALLOWED_HOSTS: 'a.example, B.example' } });
    for (const [url, path] of [
      [ticker, '/'],
      [tasks, '/tasks'],
      [admin, '/healthz'],
    ] as const) {
      const { port, host } = new URL(url);
      for (const [name, expected] of [
        [host, 200],
        ['localhost', 200],
        ['a.example', 200],
        ['b.example:443', 200],
        ['evil.example', 421],
      ] as const) {
        const raw = await connectRaw(Number(port), `GET ${path} HTTP/1.1`, `Host: ${name}`, 'Connection: close');
        expect(parseResponse(await raw.ended).status, `${name} ${path}`).to.equal(expected);
      }
    }
  });

  it('answer to loopback names only by default', async () => {
    const { ticker, tasks, admin } = await startServices();
    for (const url of [ticker, tasks, admin]) {
      const raw = await connectRaw(Number(new URL(url).port), 'GET /queue HTTP/1.1', 'Host: evil.example');
      const { status, body } = parseResponse(await raw.ended);
      expect([status, body]).to.deep.equal([421, '{"error":"host not allowed"}\n']);
    }
  });
});
