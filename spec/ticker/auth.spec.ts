import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { mock } from 'node:test';
import { expect } from 'chai';
import { ByteBudget } from '../../main/http/request-body.ts';
import { TokenStoreUnavailable } from '../../main/ticker/token-store.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { openBeside } from '../support/migrated-folder.ts';
import { type HttpResponse, request } from '../support/program.ts';
import { connectRaw, parseResponse } from '../support/raw-connection.ts';
import { startTickerBundle, type TickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';

const away = () => Promise.reject(new TokenStoreUnavailable('away'));

const exchange = (url: string, api_key: string, headers = {}) =>
  request(`${url}/auth/token`, { method: 'POST', body: JSON.stringify({ api_key }), headers });

function expectError({ status, headers, body }: HttpResponse, expectedStatus: number, text: string) {
  expect({ status, body }).to.deep.equal({ status: expectedStatus, body: { error: text } });
  expect(headers.get('content-type')).to.match(/^application\/json/);
  expect(headers.get('access-control-allow-origin')).to.equal('*');
}

describe('POST /auth/token', () => {
  it('exchanges an API key for a token, whatever the content type says', async () => {
    const bundle = await startTickerBundle();
    const { mock: taken } = mock.method(ByteBudget.prototype, 'take');
    const types = ['application/json', 'text/plain', 'application/x-www-form-urlencoded', 'x'];
    for (const type of [...types, 'application/json; charset=latin1']) {
      const { status, headers, body } = await exchange(bundle.url, bundle.apiKey, { 'Content-Type': type });
      expect(status, type).to.equal(200);
      const { token, ...others } = body;
      expect(others).to.deep.equal({ user_id: 'demo', role: 'user', expires_in: 3600 });
      expect(headers.get('content-type')).to.match(/^application\/json/);
      expect(headers.get('access-control-allow-origin')).to.equal('*');
      expect(headers.get('cache-control')).to.equal('no-store');
      expect(await bundle.tokens.verify(token)).to.deep.include({
        actor: { id: 'user:demo', metadata: { role: 'user', user_id: 'demo' } },
        scope: [{ name: 'user', group: 'user', actions: '*', resources: '*', effect: 'allow' }],
      });
    }
    const budgets = taken.calls.map((call) => (call.this as ByteBudget).limit);
    expect(budgets).to.deep.equal(Array(5).fill(8 * 1024 * 1024));
  });

  it('refuses bodies without a key that some record has, and reads user and role of the record', async () => {
    const bundle = await startTickerBundle();
    const { apiKey } = bundle;
    const padded = (bytes: number) => `{"api_key":"${'x'.repeat(bytes - 14)}"}`;
    const keyed = (...keys: unknown[]) => keys.map((key) => JSON.stringify({ api_key: key }));
    const wrongKeys = keyed('x', ` ${apiKey}`, apiKey.toUpperCase(), `${apiKey}\0`, "' OR 1=1 --", '%');
    const refused: [status: number, error: string, bodies: (string | Uint8Array<ArrayBuffer>)[]][] = [
      [400, 'invalid JSON', ['', ' ', '{', '{"api_key":"x"', "{'api_key':'x'}", 'api_key=x', 'undefined', 'NaN']],
      [400, 'invalid JSON', [new Uint8Array(Buffer.from('{"api_key":"\xff\xfe"}', 'latin1'))]],
      [400, 'api_key required', ['null', '[]', '["api_key"]', '"x"', '1', 'true', '{}', '{"API_KEY":"x"}']],
      [400, 'api_key required', ['{"__proto__":"x"}', ...keyed('', null, 1, [], {})]],
      [401, 'invalid API key', [...wrongKeys, padded(4096)]],
      [413, 'request body too large', [padded(4097)]],
    ];
    for (const [status, error, bodies] of refused)
      for (const body of bodies)
        expectError(await request(`${bundle.url}/auth/token`, { method: 'POST', body }), status, error);
    expect(bundle.tokens.store.size).to.equal(0);
    const insert = 'INSERT INTO api_keys (api_key, user_id, role, created_at) VALUES (?, ?, ?, 0)';
    bundle.database.statement(insert).run('k', 'someone', 'admin');
    expect((await exchange(bundle.url, 'k')).body).to.include({ user_id: 'someone', role: 'admin' });
  });

  describe('when something is out of order', () => {
    const removeFile = ({ dataDir }: TickerBundle) => rm(join(dataDir, 'auth.db'));
    const replaceFile = async (bundle: TickerBundle) => {
      await removeFile(bundle);
      await writeFile(join(bundle.dataDir, 'auth.db'), 'no database'.repeat(100));
    };
    const losePuts = ({ tokens }: TickerBundle) => Object.assign(tokens.store, { put: away });
    const dropTable = ({ dataDir }: TickerBundle) => openBeside(dataDir, 'auth.db').exec('DROP TABLE api_keys');
    const faults: Record<string, [error: string, logged: number, fault: (bundle: TickerBundle) => unknown]> = {
      'its database file is gone': ['database unavailable', 1, removeFile],
      'its database file is no database': ['database unavailable', 1, replaceFile],
      'the table is missing': ['lookup failed', 1, dropTable],
      'the token store fails': ['token store unavailable', 1, losePuts],
      'the token store is full': ['token creation failed', 0, ({ url, apiKey }) => exchange(url, apiKey)],
    };
    for (const [what, [error, logged, fault]] of Object.entries(faults))
      it(`answers 500 if ${what}: ${error}`, async () => {
        const bundle = await startTickerBundle({ maxTokens: 1 });
        await fault(bundle);
        expectError(await exchange(bundle.url, bundle.apiKey), 500, error);
        const lines = bundle.lines.filter(({ level }) => level >= 50).map(({ msg, path }) => [msg, path]);
        expect(lines).to.deep.equal(Array(logged).fill([error, '/auth/token']));
      });

    it('issues tokens with the policy that it read at its start, or with an empty scope, which allows nothing, and a line in the log if it could read none', async () => {
      const policy = { name: 'own', group: 'user', actions: ['read'], resources: '*', effect: 'allow' };
      for (const [text, scope, message] of [
        [JSON.stringify(policy), [policy], undefined],
        [undefined, [], /role has no policy/],
        ['x', [], /policy cannot be loaded/],
      ] as const) {
        const policies = await temporaryFolder();
        if (text !== undefined) await writeFile(join(policies, 'user.json'), text);
        const bundle = await startTickerBundle({ policies });
        await rm(join(policies, 'user.json'), { force: true });
        const { status, body } = await exchange(bundle.url, bundle.apiKey);
        expect(status).to.equal(200);
        expect((await bundle.tokens.verify(body.token))?.scope).to.deep.equal(scope);
        const headers = { Authorization: `Bearer ${body.token}` };
        for (const path of ['prices/history', 'ws/ticker'])
          if (message) expectError(await request(`${bundle.url}/${path}`, { headers }), 403, 'action not allowed');
        const line = bundle.lines.find(({ role }) => role === 'user');
        if (message === undefined) expect(line).to.equal(undefined);
        else expect(line?.msg).to.match(message);
      }
    });
  });

  it('is refused with 429 and the seconds to wait if it comes too often, whether the key is right or not, before the body is there', async () => {
    const { url, listener, apiKey } = await startTickerBundle({ perMinute: 3 });
    const startedAt = performance.now();
    for (let i = 0; i < 4; i++) await request(url);
    expect((await exchange(url, apiKey)).status).to.equal(200);
    expect((await exchange(url, 'wrong')).status).to.equal(401);
    expect((await exchange(url, '')).status).to.equal(400);
    for (const key of [apiKey, 'wrong']) {
      const response = await exchange(url, key, { Origin: 'https://a.example' });
      expectError(response, 429, 'too many requests');
      const passed = Math.ceil((performance.now() - startedAt) / 1000);
      expect(Number(response.headers.get('retry-after'))).to.be.within(20 - passed, 20);
      expect(response.headers.get('access-control-expose-headers'), 'for scripts').to.equal('Retry-After');
    }
    const raw = await connectRaw(listener.port, 'POST /auth/token HTTP/1.1', 'Host: x', 'Content-Length: 100');
    expect(parseResponse(await raw.until(/\}\n$/)).status).to.equal(429);
  });
});

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
    (await connect(bundle.stream, { token })).socket.close();
    await until(() => bundle.relay.size === 3);
    expect(bundle.handlersByToken.size).to.equal(2);
    expect(await revoke(bundle, token)).to.deep.include({ status: 204, body: '' });
    for (const client of mine) expect(await client.closed).to.deep.equal({ code: 4001, reason: 'token revoked' });
    expect(await connect(bundle.stream, { token }).catch((error) => error)).to.include({ status: 401 });
    for (let i = 0; i < 3; i++) await other.nextOf('ticker');
    await until(() => bundle.relay.size === 1);
    expect([bundle.handlersByToken.size, bundle.tokens.store.size]).to.deep.equal([1, 1]);
    for (const bad of [undefined, 'nonsense', `${token}x`, token]) {
      const response = await revoke(bundle, bad);
      expectError(response, 401, 'authentication required');
      expect(response.headers.get('www-authenticate')).to.equal('Bearer');
    }
    Object.assign(bundle.tokens.store, { revoke: away });
    expectError(await revoke(bundle, await bundle.token()), 503, 'token store unavailable');
  });
});

describe('a token that expires', () => {
  for (const expiryCloses of [true, false])
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
});

describe('the address of a client', () => {
  it('is that of its connection, or what the trusted proxies say, not what the client told the first of them', async () => {
    for (const [trustProxy, ...requests] of [
      [0, ['192.0.2.1', 200], ['192.0.2.2', 429]],
      [1, ['10.0.0.1, 192.0.2.1', 200], ['10.0.0.2, 192.0.2.1', 429]],
      [1, ['10.0.0.1, 192.0.2.1', 200], ['10.0.0.1, 192.0.2.2', 200], ['nonsense, 192.0.2.2', 429]],
      [2, ['10.0.0.1, 192.0.2.1, 198.51.100.1', 200], ['192.0.2.1, 198.51.100.2', 429]],
    ] as [number, ...[string, number][]][]) {
      const { url, apiKey } = await startTickerBundle({ perMinute: 1, replace: () => ({ trustProxy }) });
      for (const [addresses, status] of requests)
        expect((await exchange(url, apiKey, { 'X-Forwarded-For': addresses })).status, addresses).to.equal(status);
    }
  });
});
