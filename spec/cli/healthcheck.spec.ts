import { expect } from 'chai';
import { onceForSuite } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { projectFolder } from '../support/program.ts';
import { serve } from '../support/server.ts';

const OFF = 'ADMIN_PORT is off: set a port, or start the container without its health check';

describe('the health check of the container', () => {
  /** Imitates the admin listener: 200 at /healthz, 503 at /readyz, and no response at any other path. */
  const port = onceForSuite(async () => {
    const { listener } = await serve(({ url, socket }, response) => {
      const status = { '/healthz': 200, '/readyz': 503 }[url ?? ''];
      if (status === undefined) socket.destroy();
      else response.writeHead(status, { Connection: 'close' }).end('{"status":"it is"}');
    });
    return `${listener.port}`;
  });

  const at = (path: string) => `http://127.0.0.1:${port()}${path}`;
  for (const [title, env, args, expected] of [
    ['passes silently if /healthz answers 200, on loopback if all addresses are bound', { ADMIN_HOST: '0.0.0.0' }, []],
    ['fails with any other response', {}, ['/readyz'], () => `${at('/readyz')} answered 503: {"status":"it is"}`],
    ['fails without a response', {}, ['/x'], () => `${at('/x')}: other side closed`],
    ['writes an IPv6 address in brackets', { ADMIN_HOST: '::1', ADMIN_PORT: '1' }, [], () => /^http:\/\/\[::1\]:1\//],
    ['fails if the admin listener is off', { ADMIN_PORT: 'off' }, [], () => OFF],
  ] as [string, object, string[], (() => string | RegExp)?][]) {
    it(title, async () => {
      const options = { cwd: projectFolder, env: { ...process.env, ADMIN_PORT: port(), ...env } };
      const { code, stderr } = await run(process.execPath, ['dist/main', 'healthcheck', ...args], options);
      const line = expected?.() ?? '';
      expect(code).to.equal(line === '' ? 0 : 1);
      if (typeof line === 'string') expect(stderr.trimEnd()).to.equal(line);
      else expect(stderr).to.match(line);
    });
  }
});
