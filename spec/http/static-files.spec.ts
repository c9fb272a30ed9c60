import { readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { expect } from 'chai';
import Koa from 'koa';
import { jsonErrors, logLateError, notFound } from '../../main/http/json-reply.ts';
import { staticClient } from '../../main/http/static-files.ts';
import { captureLog } from '../support/log.ts';
import { projectFolder, request } from '../support/program.ts';
import { connectRaw, parseResponse } from '../support/raw-connection.ts';
import { serve } from '../support/server.ts';

const folder = join(projectFolder, 'www', 'ticker');
const index = readFileSync(join(folder, 'index.html'), 'utf8');

async function start(client: 'ticker' | 'tasks' = 'ticker') {
  const captured = captureLog();
  const app = new Koa().use(jsonErrors(captured.log));
  app.on('error', logLateError(captured.log));
  app.use(await staticClient(client));
  app.use(notFound);
  const server = await serve(app.callback());
  /** Requests a path verbatim, because HTTP clients normalize paths. */
  const raw = async (path: string, method = 'GET', ...headers: string[]) => {
    const lines = [`${method} ${path} HTTP/1.1`, 'Host: x', 'Connection: close', ...headers];
    const { ended } = await connectRaw(server.listener.port, ...lines);
    return parseResponse(Buffer.from(await ended, 'latin1').toString());
  };
  return { ...server, ...captured, raw };
}

describe('the browser client', () => {
  it('is its files with their content types, and its index file at the root and every path that is no file', async () => {
    const { url } = await start();
    const served = async (path: string) => {
      const { status, headers, body } = await request(url + path);
      return { status, body, type: headers.get('content-type') };
    };
    const html = 'text/html; charset=utf-8';
    const paths = '/ /index.html /nothing /a/b/c /a.js /?x=y /nothing?x=y /index.html/x /%C3%BC /auth /ws /.gitignore';
    for (const path of [...paths.split(' '), `/${'x'.repeat(300)}`, '/.git/config'])
      expect(await served(path), path).to.deep.equal({ status: 200, body: index, type: html });
    const types: Record<string, string> = { '.html': html, '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml' };
    const files = readdirSync(folder).filter((name) => extname(name) in types);
    expect(new Set(files.map((name) => extname(name)))).to.have.all.keys(...Object.keys(types));
    for (const name of files) {
      const body = readFileSync(join(folder, name), 'utf8');
      expect(await served(`/${name}`)).to.deep.equal({ status: 200, body, type: types[extname(name)] });
    }
  });

  it('is not sent again to who has it already', async () => {
    const { url, raw } = await start();
    for (const path of ['/', '/nothing']) {
      const modified = (await request(`${url}${path}`)).headers.get('last-modified');
      if (modified === null) throw new Error('no time of change');
      // A raw request, because fetch would add `Cache-Control: no-cache`.
      const ask = (method: string, time: string | number) =>
        raw(path, method, `If-Modified-Since: ${new Date(time).toUTCString()}`);
      for (const method of ['GET', 'HEAD'])
        expect(await ask(method, modified), method).to.deep.include({ status: 304, body: '' });
      expect(await ask('GET', Date.parse(modified) - 1000)).to.deep.include({ status: 200, body: index });
    }
  });

  it('of service B is another one', async () => {
    const { url } = await start('tasks');
    const page = await request(url);
    expect([page.status, page.headers.get('content-type')]).to.deep.equal([200, 'text/html; charset=utf-8']);
    expect(page.body).to.not.equal(index);
    expect((await request(url, { method: 'POST' })).status).to.equal(405);
  });

  it('refuses other methods', async () => {
    const { url } = await start();
    for (const path of ['/', '/index.html', '/nothing'])
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
        const answer = await request(`${url}${path}`, { method });
        expect(answer).to.deep.include({ status: 405, body: { error: 'method not allowed' } });
        expect(answer.headers.get('allow')).to.equal('GET, HEAD, OPTIONS');
      }
  });

  const up = '.. %2e%2e .%2e %2E. ..%2f.. ..\\.. ..%5c.. %2e%2e%5c ....// %252e%252e ..;'.split(' ');
  const roots = ['/', '//', '/./', '/x/../', '\\', '/%2f', '/%5c', '/index.html/', '/%00/', '//x/'];

  it('has no path that leads out of it, to a file of the project or of the system', async () => {
    const { raw, lines } = await start();
    const project = ['package.json', 'www/tasks/index.html', 'data/auth.db'].flatMap((target) => [
      ...up.flatMap((step) => [`/${step}/${step}/${target}`, `/${step}/../${step}/${target}`]),
      ...roots.map((root) => `${root}../../${target}`),
    ]);
    const passwd = ['/etc/passwd', '//etc/passwd', '/%2fetc%2fpasswd', 'http://x/etc/passwd', 'file:///etc/passwd'];
    const zero = ['/%00', '/index.html%00', '/index.html%00.png', '/..%00/..%00/package.json'];
    const broken = ['/%', '/%zz', '/%ff', '/%c0%ae%c0%ae/package.json', '/%uff0e%uff0e/package.json'];
    const more = ['/'.repeat(50), `${'/..'.repeat(50)}/etc/passwd`, `/${'../'.repeat(50)}etc/passwd`, '*'];
    for (const path of [...project, ...passwd, ...zero, ...broken, ...more]) {
      const { status, body } = await raw(path);
      if (status === 200) expect(body, path).to.equal(index);
      else expect(status, path).to.be.within(400, 499);
      if (status !== 200 && body !== '') expect(JSON.parse(body), path).to.have.all.keys('error');
    }
    expect(lines.filter(({ level }) => level >= 50)).to.deep.equal([]);
  });
});
