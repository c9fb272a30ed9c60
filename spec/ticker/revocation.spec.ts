import { expect } from 'chai';
import { ManualClock } from '../support/manual-clock.ts';
import { request } from '../support/program.ts';
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
});

describe('a token that expires', () => {
  for (const expiryCloses of [true, false]) {
    it(`${expiryCloses ? 'closes its sockets with a code of its own where that is asked for' : 'leaves them open otherwise'}, and opens no more`, async () => {
      const clock = new ManualClock();
      const bundle = await startTickerBundle({ lifetimeSeconds: 1, expiryCloses, clock });
      const token = await bundle.token();
      const client = await connect(bundle.stream, { token });
      clock.advance(1000);
      if (expiryCloses) {
        expect(await client.closed).to.deep.equal({ code: 4003, reason: 'token expired' });
        await until(() => bundle.handlersByToken.size === 0);
      } else {
        client.socket.send('{"type":"ping"}');
        await client.nextOf('pong');
      }
      expect(await connect(bundle.stream, { token }).catch((error) => error)).to.include({ status: 401 });
    });
  }
});
