import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import fc from 'fast-check';
import { bearerToken } from '../../main/ticker/auth.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { type HttpResponse, post, request } from '../support/program.ts';
import { startTickerBundle, type TickerBundle } from '../support/ticker-bundle.ts';
import { connect, Refused } from '../support/websocket.ts';

const ERROR = 50;

const exchange = ({ url, apiKey }: TickerBundle) => post(`${url}/auth/token`, { api_key: apiKey });

function send({ url }: TickerBundle, body: string | Uint8Array<ArrayBuffer>, contentType = 'application/json') {
  return request(`${url}/auth/token`, { method: 'POST', body, headers: { 'Content-Type': contentType } });
}

function expectError({ status, headers, body }: HttpResponse, expectedStatus: number, text: string) {
  expect({ status, body }).to.deep.equal({ status: expectedStatus, body: { error: text } });
  expect(headers.get('content-type')).to.match(/^application\/json/);
  expect(headers.get('access-control-allow-origin')).to.equal('*');
}

describe('POST /auth/token', () => {
  it('exchanges an API key for a token', async () => {
    const bundle = await startTickerBundle();
    const { status, headers, body } = await exchange(bundle);
    expect(status).to.equal(200);
    expect(body).to.have.all.keys('token', 'user_id', 'role', 'expires_in');
    expect(body).to.include({ user_id: 'demo', role: 'user', expires_in: 3600 });
    expect(headers.get('content-type')).to.match(/^application\/json/);
    expect(headers.get('access-control-allow-origin')).to.equal('*');
    expect(headers.get('cache-control')).to.equal('no-store');
    expect(await bundle.tokens.verify(body.token)).to.deep.include({
      actor: { id: 'user:demo', metadata: { role: 'user', user_id: 'demo' } },
      scope: [{ name: 'user', group: 'user', actions: '*', resources: '*', effect: 'allow' }],
    });
  });

  it('reads user and role of the record with that key', async () => {
    const bundle = await startTickerBundle();
    const insert = 'INSERT INTO api_keys (api_key, user_id, role, created_at) VALUES (?, ?, ?, 0)';
    bundle.database.statement(insert).run('k', 'someone', 'admin');
    const { body } = await post(`${bundle.url}/auth/token`, { api_key: 'k' });
    expect(body).to.include({ user_id: 'someone', role: 'admin' });
  });

  it('parses the body whatever its content type says', async () => {
    const bundle = await startTickerBundle();
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/json; charset=latin1', 'x']) {
      const { status } = await send(bundle, JSON.stringify({ api_key: bundle.apiKey }), type);
      expect(status, type).to.equal(200);
    }
  });

  it('refuses a body that cannot be parsed', async () => {
    const bundle = await startTickerBundle();
    const invalidUtf8 = Buffer.from('{"api_key":"\xff\xfe"}', 'latin1');
    for (const body of [
      '',
      ' ',
      '{',
      '{"api_key":"x"',
      "{'api_key':'x'}",
      'api_key=x',
      'undefined',
      'NaN',
      invalidUtf8,
    ])
      expectError(await send(bundle, body), 400, 'invalid JSON');
  });

  it('refuses a body without a key', async () => {
    const bundle = await startTickerBundle();
    const bodies = ['null', '[]', '["api_key"]', '"x"', '1', 'true', '{}', '{"API_KEY":"x"}', '{"__proto__":"x"}'];
    const keys = ['""', 'null', '1', 'true', '[]', '["x"]', '{}', '1e400'].map((value) => `{"api_key":${value}}`);
    for (const body of [...bodies, ...keys]) expectError(await send(bundle, body), 400, 'api_key required');
  });

  it('refuses a key that no record has', async () => {
    const bundle = await startTickerBundle();
    for (const key of ['x', ` ${bundle.apiKey}`, bundle.apiKey.toUpperCase(), `${bundle.apiKey}\0`, "' OR 1=1 --", '%'])
      expectError(await post(`${bundle.url}/auth/token`, { api_key: key }), 401, 'invalid API key');
    expect(bundle.tokens.store.size).to.equal(0);
  });

  it('answers any JSON with one of its errors, never with a token', async () => {
    const bundle = await startTickerBundle();
    const value = fc.oneof(fc.jsonValue(), fc.record({ api_key: fc.jsonValue() }));
    await fc.assert(
      fc.asyncProperty(value, async (body) => {
        const { status, body: answer } = await post(`${bundle.url}/auth/token`, body);
        expect([400, 401]).to.include(status);
        expect(Object.keys(answer)).to.deep.equal(['error']);
      }),
      { numRuns: 50 },
    );
  });

  it('refuses a body over 4 KiB', async () => {
    const bundle = await startTickerBundle();
    const padded = (bytes: number) => `{"api_key":"${'x'.repeat(bytes - 14)}"}`;
    expectError(await send(bundle, padded(4096)), 401, 'invalid API key');
    expectError(await send(bundle, padded(4097)), 413, 'request body too large');
  });

  it('refuses other methods', async () => {
    const { url } = await startTickerBundle();
    for (const method of ['GET', 'PUT', 'PATCH']) {
      const answer = await request(`${url}/auth/token`, { method });
      expect(answer.status, method).to.equal(405);
      expect(answer.body, method).to.deep.equal({ error: 'method not allowed' });
      expect(answer.headers.get('allow'), method).to.equal('POST, DELETE, OPTIONS');
    }
    const { status, body } = await request(`${url}/auth/token`, { method: 'HEAD' });
    expect({ status, body }).to.deep.equal({ status: 405, body: '' });
  });

  it('allows any origin, before and in the request', async () => {
    const bundle = await startTickerBundle();
    const preflight = await request(`${bundle.url}/auth/token`, {
      method: 'OPTIONS',
      headers: {
        Origin: 'https://example.org',
        'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': 'content-type',
      },
    });
    expect(preflight.status).to.equal(204);
    expect(preflight.headers.get('access-control-allow-origin')).to.equal('*');
    expect(preflight.headers.get('access-control-allow-methods')).to.include('POST').and.include('DELETE');
    expect(preflight.headers.get('access-control-allow-headers')).to.equal('content-type');
    const { headers } = await request(`${bundle.url}/auth/token`, {
      method: 'POST',
      body: JSON.stringify({ api_key: bundle.apiKey }),
      headers: { Origin: 'null' },
    });
    expect(headers.get('access-control-allow-origin')).to.equal('*');
  });

  describe('when something is out of order', () => {
    it('says that the database is unavailable while its file is gone', async () => {
      const bundle = await startTickerBundle();
      await rm(join(bundle.dataDir, 'auth.db'));
      expectError(await exchange(bundle), 500, 'database unavailable');
      expect(bundle.lines.filter((line) => line.level === ERROR)).to.have.lengthOf(1);
    });

    it('says that the database is unavailable while its file is none', async () => {
      const bundle = await startTickerBundle();
      const file = join(bundle.dataDir, 'auth.db');
      await rm(file);
      await writeFile(file, 'no database'.repeat(100));
      expectError(await exchange(bundle), 500, 'database unavailable');
    });

    it('says that the lookup failed while the table is missing', async () => {
      const bundle = await startTickerBundle();
      await exchange(bundle);
      const other = new DatabaseSync(join(bundle.dataDir, 'auth.db'));
      other.exec('DROP TABLE api_keys');
      other.close();
      expectError(await exchange(bundle), 500, 'lookup failed');
      expect(bundle.lines.at(-1)).to.include({ level: ERROR, msg: 'lookup failed', path: '/auth/token' });
    });

    it('says that the token store is unavailable when it is closed', async () => {
      const bundle = await startTickerBundle();
      await bundle.tokens.store.close();
      expectError(await exchange(bundle), 500, 'token store unavailable');
    });

    it('says that the token cannot be created when the store is full, and keeps it out of the error log', async () => {
      const bundle = await startTickerBundle({ maxTokens: 1 });
      expect((await exchange(bundle)).status).to.equal(200);
      expectError(await exchange(bundle), 500, 'token creation failed');
      expect(bundle.lines.filter((line) => line.level >= ERROR)).to.deep.equal([]);
    });

    it('issues tokens with the policy that it read at its start, whatever becomes of the file', async () => {
      const policies = await temporaryFolder();
      const policy = { name: 'own', group: 'user', actions: ['read'], resources: '*', effect: 'allow' };
      await writeFile(join(policies, 'user.json'), JSON.stringify(policy));
      const bundle = await startTickerBundle({ policies });
      await rm(join(policies, 'user.json'));
      const { body } = await exchange(bundle);
      expect((await bundle.tokens.verify(body.token))?.scope).to.deep.equal([policy]);
    });

    it('issues a token with an empty scope when the policy cannot be loaded or the role has none, and logs it', async () => {
      const broken = await temporaryFolder();
      await writeFile(join(broken, 'user.json'), 'x');
      for (const [policies, message] of [
        [await temporaryFolder(), /role has no policy/],
        [broken, /policy cannot be loaded/],
      ] as const) {
        const bundle = await startTickerBundle({ policies });
        const { status, body } = await exchange(bundle);
        expect(status).to.equal(200);
        expect((await bundle.tokens.verify(body.token))?.scope).to.deep.equal([]);
        expect(bundle.lines.some((line) => line.role === 'user' && message.test(line.msg))).to.equal(true);
        const refused = await connect(bundle.stream, { token: body.token }).catch((error: unknown) => error);
        expect(refused).to.be.instanceOf(Refused);
        expect(refused).to.deep.include({ status: 500, body: { error: 'failed to create handler' } });
        expect(bundle.actors.size).to.equal(1);
      }
    });
  });
});

const incoming = (authorization?: string, protocols?: string, url = '/ws/ticker') => ({
  url,
  headers: {
    ...(authorization !== undefined && { authorization }),
    ...(protocols !== undefined && { 'sec-websocket-protocol': protocols }),
  },
});

describe('the bearer token of a request', () => {
  it('is in the header, in the subprotocol or in the query, in this order', () => {
    const query = '/ws/ticker?token=from-query';
    const protocols = 'ticker.v1, bearer.from-protocol';
    expect(bearerToken(incoming('Bearer from-header', protocols, query))).to.equal('from-header');
    expect(bearerToken(incoming(undefined, protocols, query))).to.equal('from-protocol');
    expect(bearerToken(incoming(undefined, undefined, query))).to.equal('from-query');
    expect(bearerToken(incoming(undefined, 'ticker.v1', query))).to.equal('from-query');
    expect(bearerToken(incoming())).to.equal(undefined);
  });

  it('may be written with any case of the scheme and any number of spaces', () => {
    for (const header of ['Bearer abc', 'bearer abc', 'BEARER   abc', 'Bearer abc  '])
      expect(bearerToken(incoming(header)), header).to.equal('abc');
  });

  it('is none when the header is malformed, wherever else there is one', () => {
    for (const header of ['', 'Bearer', 'Bearer ', 'abc', 'Basic abc', 'Bearer a b', 'Bearerabc', ' Bearer abc'])
      expect(bearerToken(incoming(header, 'bearer.abc', '/ws/ticker?token=abc')), header).to.equal(undefined);
  });

  it('is the first of the subprotocols that are one', () => {
    expect(bearerToken(incoming(undefined, 'bearer.a,bearer.b'))).to.equal('a');
    expect(bearerToken(incoming(undefined, '  bearer.a.b.c ,ticker.v1'))).to.equal('a.b.c');
    expect(bearerToken(incoming(undefined, 'bearer.'))).to.equal('');
    for (const offered of ['', ',', 'Bearer.a', 'xbearer.a', 'bearer a'])
      expect(bearerToken(incoming(undefined, offered)), offered).to.equal(undefined);
  });

  it('is the first parameter of that name in the query', () => {
    const cases: [url: string, token: string | undefined][] = [
      ['/ws/ticker?token=a&token=b', 'a'],
      ['/ws/ticker?x=y&token=v3.local.a-b_c', 'v3.local.a-b_c'],
      ['/ws/ticker?token=a%2Eb', 'a.b'],
      ['/ws/ticker?token=', ''],
      ['/ws/ticker?token', ''],
      ['/ws/ticker?Token=a', undefined],
      ['/ws/ticker?', undefined],
      ['/token=a', undefined],
      ['', undefined],
    ];
    for (const [url, token] of cases) expect(bearerToken(incoming(undefined, undefined, url)), url).to.equal(token);
    expect(bearerToken({ headers: {} })).to.equal(undefined);
  });

  it('is looked for in anything without an error', () => {
    const text = fc.option(fc.string(), { nil: undefined });
    fc.assert(
      fc.property(text, text, fc.string(), (authorization, protocols, url) => {
        expect(['string', 'undefined']).to.include(typeof bearerToken(incoming(authorization, protocols, url)));
      }),
    );
  });
});
