import Router from '@koa/router';
import { expect } from 'chai';
import Koa from 'koa';
import { refuseOtherMethods } from '../../main/http/exact-router.ts';
import { jsonErrors } from '../../main/http/json-errors.ts';
import { captureLog } from '../support/log.ts';
import { request } from '../support/program.ts';
import { serve } from '../support/server.ts';

describe('other methods', () => {
  it('are refused with 405 and the list of those that are allowed', async () => {
    const router = new Router();
    router.get('/path', (ctx) => {
      ctx.body = 'got';
    });
    router.all('/path', refuseOtherMethods('GET', 'POST'));
    const app = new Koa().use(jsonErrors(captureLog().log)).use(router.routes());
    const { url } = await serve(app.callback());
    expect(await request(`${url}/path`)).to.deep.include({ status: 200, body: 'got' });
    for (const method of ['PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
      const { status, headers, body } = await request(`${url}/path`, { method });
      expect({ status, body }, method).to.deep.equal({ status: 405, body: { error: 'method not allowed' } });
      expect(headers.get('allow'), method).to.equal('GET, POST');
    }
    expect((await request(`${url}/other`, { method: 'PUT' })).status).to.equal(404);
  });
});
