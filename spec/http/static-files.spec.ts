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

const ERROR = 50;

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
  it('is its index file at the root and every path that is no file', async () => {
    const { url } = await start();
    const paths = '/ /index.html /nothing /a/b/c /a.js /?x=y /nothing?x=y /index.html/x /%C3%BC /auth /ws /.gitignore';
    for (const path of [...paths.split(' '), `/${'x'.repeat(300)}`, '/.git/config']) {
      const { status, headers, body } = await request(`${url}${path}`);
      expect({ status, body }, path).to.deep.equal({ status: 200, body: index });
      expect(headers.get('content-type'), path).to.equal('text/html; charset=utf-8');
    }
  });

  it('has the content type of each file', async () => {
    const types: Record<string, RegExp> = {
      '.html': /^text\/html; charset=utf-8$/,
      '.css': /^text\/css; charset=utf-8$/,
      '.js': /^(text|application)\/javascript; charset=utf-8$/,
      '.svg': /^image\/svg\+xml/,
    };
    const { url } = await start();
    const seen = new Set<string>();
    for (const name of readdirSync(folder)) {
      const type = types[extname(name)];
      if (type === undefined) continue;
      seen.add(extname(name));
      const { status, headers, body } = await request(`${url}/${name}`);
      expect({ status, body }, name).to.deep.equal({ status: 200, body: readFileSync(join(folder, name), 'utf8') });
      expect(headers.get('content-type'), name).to.match(type);
    }
    expect([...seen]).to.include.members(['.html', '.css', '.svg']);
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

  it('of service B is served at its files only', async () => {
    const { url } = await start('tasks');
    const page = await request(url);
    expect(page.status).to.equal(200);
    expect(page.headers.get('content-type')).to.equal('text/html; charset=utf-8');
    expect(page.body).to.not.equal(index);
    for (const method of ['GET', 'POST'])
      expect(await request(`${url}/nothing`, { method })).to.deep.include({
        status: 404,
        body: { error: 'not found' },
      });
    expect((await request(url, { method: 'POST' })).status).to.equal(405);
  });

  it('refuses other methods', async () => {
    const { url } = await start();
    for (const path of ['/', '/index.html', '/nothing']) {
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
        const { status, headers, body } = await request(`${url}${path}`, { method });
        expect({ status, body }).to.deep.equal({ status: 405, body: { error: 'method not allowed' } });
        expect(headers.get('allow')).to.equal('GET, HEAD, OPTIONS');
      }
    }
  });
});

describe('a path out of the browser client', () => {
  const up = '.. %2e%2e .%2e %2E. ..%2f.. ..\\.. ..%5c.. %2e%2e%5c ....// %252e%252e ..;'.split(' ');
  const roots = ['/', '//', '/./', '/x/../', '\\', '/%2f', '/%5c', '/index.html/', '/%00/', '//x/'];

  /** Asserts that the response is neither a file of the project nor a server error. */
  function expectNothing(response: { status: number; body: string }, path: string) {
    if (response.status === 200) {
      expect(response.body, path).to.equal(index);
    } else {
      expect(response.status, path).to.be.within(400, 499);
      if (response.body !== '') expect(JSON.parse(response.body), path).to.have.all.keys('error');
    }
  }

  it('never leads to a file of the project or of the system', async () => {
    const { raw, lines } = await start();
    const project = ['package.json', 'www/tasks/index.html', 'data/auth.db'].flatMap((target) => [
      ...up.flatMap((step) => [`/${step}/${step}/${target}`, `/${step}/../${step}/${target}`]),
      ...roots.map((root) => `${root}../../${target}`),
    ]);
    const passwd = ['/etc/passwd', '//etc/passwd', '/%2fetc%2fpasswd', 'http://x/etc/passwd', 'file:///etc/passwd'];
    const zero = ['/%00', '/index.html%00', '/index.html%00.png', '/..%00/..%00/package.json'];
    const broken = ['/%', '/%zz', '/%ff', '/%c0%ae%c0%ae/package.json', '/%uff0e%uff0e/package.json'];
    const more = ['/'.repeat(50), `${'/..'.repeat(50)}/etc/passwd`, `/${'../'.repeat(50)}etc/passwd`, '*'];
    for (const path of [...project, ...passwd, ...zero, ...broken, ...more]) expectNothing(await raw(path), path);
    expect(lines.filter(({ level }) => level >= ERROR)).to.deep.equal([]);
  });
});
