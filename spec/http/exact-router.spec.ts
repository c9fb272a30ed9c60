import Router from '@koa/router';
import { expect } from 'chai';
import Koa from 'koa';
import { answerOtherMethods } from '../../main/http/exact-router.ts';
import { jsonErrors } from '../../main/http/json-reply.ts';
import { captureLog } from '../support/log.ts';
import { request } from '../support/program.ts';
import { serve } from '../support/server.ts';

describe('other methods', () => {
  async function start(): Promise<string> {
    const router = new Router();
    router.get('/path', (ctx) => {
      ctx.body = 'got';
    });
    router.all('/path', answerOtherMethods('GET', 'POST'));
    const app = new Koa().use(jsonErrors(captureLog().log)).use(router.routes());
    return (await serve(app.callback())).url;
  }

  it('are refused with 405 and the list of those that are supported', async () => {
    const url = await start();
    expect(await request(`${url}/path`)).to.deep.include({ status: 200, body: 'got' });
    for (const method of ['PUT', 'PATCH', 'DELETE', 'PROPFIND']) {
      const { status, headers, body } = await request(`${url}/path`, { method });
      expect({ status, body }, method).to.deep.equal({ status: 405, body: { error: 'method not allowed' } });
      expect(headers.get('allow'), method).to.equal('GET, POST, OPTIONS');
    }
    expect((await request(`${url}/other`, { method: 'PUT' })).status).to.equal(404);
  });

  it('include OPTIONS, which gets 204 with the list, unless it is a refused CORS preflight', async () => {
    const url = `${await start()}/path`;
    const { status, headers, body } = await request(url, { method: 'OPTIONS' });
    expect([status, headers.get('allow'), body]).to.deep.equal([204, 'GET, POST, OPTIONS', '']);
    const preflight = { Origin: 'https://example.org', 'Access-Control-Request-Method': 'GET' };
    expect((await request(url, { method: 'OPTIONS', headers: preflight })).status).to.equal(405);
  });
});
