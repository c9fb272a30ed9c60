import { expect } from 'chai';
import { post, request } from '../support/program.ts';
import { startTickerBundle, type TickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';

function revoke({ url }: Pick<TickerBundle, 'url'>, token?: string) {
  const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  return request(`${url}/auth/token`, { method: 'DELETE', headers });
}

describe('DELETE /auth/token', () => {
  it('revokes the token that it bears, and closes the sockets of that token with a code of its own, and no other', async () => {
    const bundle = await startTickerBundle({ intervalMs: 20 });
    const token = await bundle.token();
    const mine = [await connect(bundle.stream, { token }), await connect(bundle.stream, { token })];
    const other = await bundle.join();
    expect(bundle.handlersByToken.size).to.equal(2);
    expect(await revoke(bundle, token)).to.deep.include({ status: 204, body: '' });
    for (const client of mine) expect(await client.closed).to.deep.equal({ code: 4001, reason: 'token revoked' });
    expect(await connect(bundle.stream, { token }).catch((error) => error)).to.include({ status: 401 });
    for (let i = 0; i < 3; i++) await other.nextOf('ticker');
    await until(() => bundle.relay.size === 1);
    expect([bundle.handlersByToken.size, bundle.tokens.store.size]).to.deep.equal([1, 1]);
    for (const bad of [undefined, 'nonsense', `${token}x`, token]) {
      const { status, body, headers } = await revoke(bundle, bad);
      expect([status, body]).to.deep.equal([401, { error: 'authentication required' }]);
      expect(headers.get('www-authenticate')).to.equal('Bearer');
      expect(headers.get('access-control-allow-origin')).to.equal('*');
    }
  });

  it('is what a client sees whose token newer ones of its key evicted, and no client of another key', async () => {
    const bundle = await startTickerBundle({ intervalMs: 20, maxTokensPerKey: 2 });
    const exchange = async () => (await post(`${bundle.url}/auth/token`, { api_key: bundle.apiKey })).body.token;
    const [first, second] = [await exchange(), await exchange()];
    const [evicted, kept] = [
      await connect(bundle.stream, { token: first }),
      await connect(bundle.stream, { token: second }),
    ];
    const other = await bundle.join();
    expect(await exchange()).to.be.a('string');
    expect(await evicted.closed).to.deep.equal({ code: 4001, reason: 'token revoked' });
    expect(await connect(bundle.stream, { token: first }).catch((error) => error)).to.include({ status: 401 });
    for (const client of [kept, other]) for (let i = 0; i < 3; i++) await client.nextOf('ticker');
    expect(bundle.tokens.store.size).to.equal(3);
  });
});

describe('a token that expires', () => {
  it('closes its sockets with a code of its own where that is asked for', async () => {
    const bundle = await startTickerBundle({ lifetimeSeconds: 1 });
    const client = await bundle.join();
    expect(await client.closed).to.deep.equal({ code: 4003, reason: 'token expired' });
    await until(() => bundle.handlersByToken.size === 0);
  });

  it('leaves them open otherwise', async () => {
    const bundle = await startTickerBundle({ lifetimeSeconds: 1, expiryCloses: false, intervalMs: 20 });
    const token = await bundle.token();
    const client = await connect(bundle.stream, { token });
    await until(() => bundle.tokens.store.size === 0);
    for (let i = 0; i < 3; i++) await client.nextOf('ticker');
    expect((await connect(bundle.stream, { token }).catch((error) => error)).status).to.equal(401);
  });
});
