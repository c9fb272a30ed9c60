import { expect } from 'chai';
import { Registry } from 'prom-client';
import { createAdminApp } from '../../main/admin/app.ts';
import { hostCheck } from '../../main/http/origins.ts';
import { defaultSymbols } from '../../workers/shared/symbols.ts';
import { afterTest, onceForSuite } from '../support/cleanup.ts';
import { holdToContract } from '../support/contract-watch.ts';
import { captureLog } from '../support/log.ts';
import { request } from '../support/program.ts';
import { serve } from '../support/server.ts';
import { startTasksServer } from '../tasks/http/tasks-server.ts';

const always = ['localhost', 'localhost.', 'app.localhost', '127.0.0.1', '127.8.9.10', '[::1]', '10.0.0.1', '[::2]'];
const foreign = ['evil.example', 'localhost.evil.example', 'notlocalhost', '127.evil.example', '.'];

describe('the hosts that a listener answers to', () => {
  it('are loopback names, all addresses, and those that are set, or all where none is set on another address', () => {
    for (const [set, addresses, allowed, refused] of [
      [[], ['127.0.0.1', '127.0.0.2', '::1'], always, foreign],
      [[], ['0.0.0.0', '::', '10.0.0.1'], [...always, ...foreign], []],
      [['a.example'], ['0.0.0.0', '127.0.0.1'], [...always, 'a.example'], [...foreign, 'b.a.example']],
      [['*'], ['127.0.0.1'], foreign, []],
    ] as const) {
      for (const address of addresses) {
        const isAllowed = hostCheck(set, address);
        for (const host of allowed) expect(isAllowed(host), `${host} ${address}`).to.equal(true);
        for (const host of refused) expect(isAllowed(host), `${host} ${address}`).to.equal(false);
      }
    }
    expect(hostCheck([], '127.0.1.1', 'Node-1')('node-1'), 'the configured name').to.equal(true);
  });
});

const APP = 'https://app.example.com';
const ID = '00000000-0000-4000-8000-000000000000';
const refused = { status: 403, body: { error: 'cross-site request refused' } };

const crossSite = (Origin = 'https://evil.example') => ({ 'Sec-Fetch-Site': 'cross-site', Origin });

describe('a request from a browser', () => {
  /** Starts service B and the admin listener, which allow the origin {@link APP}. */
  const shared = onceForSuite(async () => {
    const corsOrigins = ['https://other.example', APP];
    const app = createAdminApp({
      ...{ checks: {}, warnings: {}, metrics: new Registry(), symbols: defaultSymbols, corsOrigins },
      ...{ rules: { actions: new Map(), rejectUnknown: false }, log: captureLog().log },
    });
    const { listener, url } = await serve(app.callback());
    afterTest(holdToContract(listener.port, 'admin').forget);
    return { ...(await startTasksServer({ corsOrigins })), admin: url };
  });
  const submit = (headers: Record<string, string>) => shared().submit('{"action":"x"}', { headers });

  for (const [sender, headers, mayWrite, mayRead] of [
    ['a similar origin', crossSite('https://app.example.com.evil.example'), false, false],
    ['the same host without TLS', crossSite('http://app.example.com'), false, false],
    ['a page without an origin', crossSite('null'), false, false],
    ['an empty origin', crossSite(''), false, false],
    ['an allowed origin', crossSite(APP), true, true],
    ['another port of the same host', { 'Sec-Fetch-Site': 'same-site', Origin: 'http://localhost:3000' }, false, true],
    ['an allowed origin of the same site', { 'Sec-Fetch-Site': 'same-site', Origin: APP }, true, true],
    ['the same origin', { 'Sec-Fetch-Site': 'same-origin' }, true, true],
    ['no page', { 'Sec-Fetch-Site': 'none' }, true, true],
    ['a browser that tells no site', { 'Sec-Fetch-Site': '' }, true, true],
    ['such a browser on another site', { Origin: 'https://evil.example' }, false, false],
    ['such a browser on another port', { Origin: 'http://127.0.0.1:3000' }, false, false],
    ['such a browser without an origin', { Origin: 'null' }, false, false],
  ] as [string, Record<string, string>, boolean, boolean][]) {
    const [write, read] = [mayWrite, mayRead].map((may) => (may ? 'may' : 'may not'));
    it(`that comes from ${sender} ${write} write to service B, and ${read} read from the admin listener`, async () => {
      expect(await submit(headers)).to.deep.include(mayWrite ? { status: 202 } : refused);
      expect(await request(`${shared().admin}/healthz`, { headers })).to.deep.include(
        mayRead ? { status: 200 } : refused,
      );
    });
  }

  it('may not write to service B from its port on another host, only from its own origin', async () => {
    const { url } = shared();
    expect(await submit({ Origin: `http://evil.example:${new URL(url).port}` })).to.deep.include(refused);
    expect((await submit({ Origin: url })).status).to.equal(202);
  });

  it('may use no method and no path from another site', async () => {
    const { url, admin, queue } = shared();
    const { accepted } = await queue.counts();
    for (const [address, methods, paths] of [
      [url, ['POST'], ['/tasks', `/dead-letters/${ID}/retry`, '/', '/nothing']],
      [url, ['PUT', 'DELETE'], ['/tasks', `/dead-letters/${ID}`]],
      [admin, ['GET', 'POST', 'OPTIONS'], ['/healthz', '/readyz', '/metrics', '/openapi.json', '/nothing']],
    ] as const) {
      for (const method of methods)
        for (const path of paths)
          expect(await request(address + path, { method, headers: crossSite() }), path).to.deep.include(refused);
    }
    expect((await queue.counts()).accepted).to.equal(accepted);
  });

  it('may read from service B, but only a page of an allowed origin sees the answer', async () => {
    const { url, admin } = shared();
    for (const [origin, ...addresses] of [
      [APP, `${url}/tasks`, `${url}/queue`, `${url}/`, `${admin}/healthz`],
      ['https://evil.example', `${url}/tasks`, `${url}/queue`, `${url}/`],
    ] as [string, ...string[]][]) {
      for (const address of addresses) {
        const { status, headers } = await request(address, { headers: crossSite(origin) });
        const expected = [200, origin === APP ? APP : null];
        expect([status, headers.get('Access-Control-Allow-Origin')], `${origin} ${address}`).to.deep.equal(expected);
        expect(headers.get('Vary')).to.match(address === `${url}/` ? /^Origin, Accept-Encoding$/ : /Origin/);
      }
    }
  });

  it('may be preceded by a preflight if its origin is allowed', async () => {
    for (const [path, origin, ...expected] of [
      ['/tasks', APP, 204, APP, 'GET,HEAD,PUT,POST,DELETE'],
      [`/dead-letters/${ID}`, APP, 204, APP, 'GET,HEAD,PUT,POST,DELETE'],
      ['/tasks', 'https://evil.example', 405, null, null],
    ] as const) {
      const init = { method: 'OPTIONS', headers: { ...crossSite(origin), 'Access-Control-Request-Method': 'DELETE' } };
      const { status, headers } = await request(shared().url + path, init);
      const allowed = ['Origin', 'Methods'].map((name) => headers.get(`Access-Control-Allow-${name}`));
      expect([status, ...allowed], `${origin} ${path}`).to.deep.equal(expected);
    }
  });
});
