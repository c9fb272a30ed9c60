import { expect } from 'chai';
import { request } from '../support/program.ts';
import { connectRaw, parseResponse } from '../support/raw-connection.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';

const exchange = (url: string, api_key: string, headers = {}) =>
  request(`${url}/auth/token`, { method: 'POST', body: JSON.stringify({ api_key }), headers });

describe('POST /auth/token, too often', () => {
  it('is refused with 429 and the seconds to wait, whether the key is right or not', async () => {
    const { url, apiKey } = await startTickerBundle({ perMinute: 3 });
    const startedAt = performance.now();
    expect((await exchange(url, apiKey)).status).to.equal(200);
    expect((await exchange(url, 'wrong')).status).to.equal(401);
    expect((await exchange(url, '')).status).to.equal(400);
    for (const key of [apiKey, 'wrong']) {
      const { status, body, headers } = await exchange(url, key, { Origin: 'https://a.example' });
      expect([status, body]).to.deep.equal([429, { error: 'too many requests' }]);
      const passed = Math.ceil((performance.now() - startedAt) / 1000);
      expect(Number(headers.get('retry-after'))).to.be.within(20 - passed, 20);
      expect(headers.get('access-control-allow-origin')).to.equal('*');
      expect(headers.get('access-control-expose-headers'), 'for scripts of another origin').to.equal('Retry-After');
    }
  });

  it('is refused before the body is there', async () => {
    const { listener, url, apiKey } = await startTickerBundle({ perMinute: 1 });
    await exchange(url, apiKey);
    const raw = await connectRaw(listener.port, 'POST /auth/token HTTP/1.1', 'Host: x', 'Content-Length: 100');
    expect(parseResponse(await raw.until(/\}\n$/)).status).to.equal(429);
  });

  it('does not count other requests', async () => {
    const { url, apiKey } = await startTickerBundle({ perMinute: 1 });
    for (let i = 0; i < 3; i++) await request(url);
    expect((await exchange(url, apiKey)).status).to.equal(200);
  });
});

describe('the address of a client', () => {
  const forwarded = (addresses: string) => ({ 'X-Forwarded-For': addresses });

  it('is that of its connection, whatever it says, unless a proxy is trusted', async () => {
    const { url, apiKey } = await startTickerBundle({ perMinute: 2 });
    for (const address of ['192.0.2.1', '192.0.2.2']) await exchange(url, apiKey, forwarded(address));
    expect((await exchange(url, apiKey, forwarded('192.0.2.3'))).status).to.equal(429);
  });

  it('is what the trusted proxies say, not what the client told the first of them', async () => {
    const { url, apiKey } = await startTickerBundle({ perMinute: 1, trustProxy: 1 });
    expect((await exchange(url, apiKey, forwarded('10.0.0.1, 192.0.2.1'))).status).to.equal(200);
    expect((await exchange(url, apiKey, forwarded('10.0.0.2, 192.0.2.1'))).status).to.equal(429);
    expect((await exchange(url, apiKey, forwarded('10.0.0.1, 192.0.2.2'))).status).to.equal(200);
    expect((await exchange(url, apiKey, forwarded('nonsense, 192.0.2.2'))).status).to.equal(429);
  });

  it('is one behind each further proxy that is trusted', async () => {
    const { url, apiKey } = await startTickerBundle({ perMinute: 1, trustProxy: 2 });
    expect((await exchange(url, apiKey, forwarded('10.0.0.1, 192.0.2.1, 198.51.100.1'))).status).to.equal(200);
    expect((await exchange(url, apiKey, forwarded('192.0.2.1, 198.51.100.2'))).status).to.equal(429);
  });
});
