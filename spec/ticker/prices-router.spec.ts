import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { request } from '../support/program.ts';
import { startTickerBundle, type TickerBundle } from '../support/ticker-bundle.ts';
import { eventually } from '../support/until.ts';

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

async function get({ url, token }: TickerBundle, query = '') {
  return request(`${url}/prices/history${query}`, { headers: bearer(await token()) });
}

describe('GET /prices/history', () => {
  it('answers with the ticks of the stream', async () => {
    const bundle = await startTickerBundle({ intervalMs: 50 });
    const { status, body, headers } = await eventually(
      () => get(bundle),
      ({ body: { timestamps } }) => timestamps.length > 1,
    );
    expect(status).to.equal(200);
    expect(headers.get('access-control-allow-origin')).to.equal('*');
    expect(body.interval_ms).to.equal(50);
    expect(Object.keys(body.prices)).to.deep.equal(['BTC-USD', 'ETH-USD', 'SOL-USD']);
    for (const prices of Object.values(body.prices)) expect(prices).to.have.length(body.timestamps.length);
    expect(body.prices['BTC-USD'].at(-1)).to.be.within(40_000, 44_000);
    expect((await get(bundle, '?seconds=1')).body.timestamps.length).to.be.at.most(1);
  });

  it('refuses a number of seconds out of its range', async () => {
    const bundle = await startTickerBundle();
    for (const seconds of ['', '0', '901', '1.5', '-1', '1e2', 'x', '1&seconds=2']) {
      const { status, body } = await get(bundle, `?seconds=${seconds}`);
      expect([status, body], seconds).to.deep.equal([400, { error: 'seconds must be a whole number from 1 to 900' }]);
    }
    expect((await get(bundle, '?seconds=900')).status).to.equal(200);
  });

  it('requires a valid token, in any form that the stream takes', async () => {
    const bundle = await startTickerBundle();
    const url = `${bundle.url}/prices/history`;
    const token = await bundle.token();
    for (const headers of [{}, bearer('v3.local.x'), { Authorization: token }]) {
      const { status, body } = await request(url, { headers });
      expect([status, body]).to.deep.equal([401, { error: 'authentication required' }]);
    }
    expect((await request(`${url}?token=${token}`)).status).to.equal(200);
    expect((await request(`${bundle.url}/auth/token`, { method: 'DELETE', headers: bearer(token) })).status).to.equal(
      204,
    );
    expect((await request(url, { headers: bearer(token) })).status).to.equal(401);
  });

  it('refuses a token whose scope is empty, and other methods', async () => {
    const missing = pathToFileURL(`${await temporaryFolder()}/missing.json`);
    const { url, apiKey } = await startTickerBundle({ userPolicy: missing });
    const exchange = await request(`${url}/auth/token`, { method: 'POST', body: JSON.stringify({ api_key: apiKey }) });
    const { status, body } = await request(`${url}/prices/history`, { headers: bearer(exchange.body.token) });
    expect([status, body]).to.deep.equal([403, { error: 'action not allowed' }]);
    const refused = await request(`${url}/prices/history`, { method: 'POST' });
    expect([refused.status, refused.headers.get('allow')]).to.deep.equal([405, 'GET, HEAD, OPTIONS']);
  });
});
