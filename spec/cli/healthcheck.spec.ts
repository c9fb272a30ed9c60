import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { projectFolder, watch } from '../support/program.ts';

/** Imitates the admin listener: records request paths, and responds with `status` or closes the connection. */
async function listen(status?: number) {
  const asked: string[] = [];
  const server = createServer(({ url, socket }, response) => {
    asked.push(url ?? '');
    if (status === undefined) socket.destroy();
    else response.writeHead(status, { Connection: 'close' }).end('{"status":"it is"}');
  });
  afterTest(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { asked, port: `${(server.address() as AddressInfo).port}` };
}

async function check(env: Record<string, string>, ...args: string[]) {
  const child = spawn(process.execPath, ['dist/main', 'healthcheck', ...args], {
    cwd: projectFolder,
    env: { ...process.env, ...env },
  });
  const program = watch(child);
  return { ...(await program.exited), errors: program.errors() };
}

describe('the health check', () => {
  it('ends with exit code 0 and no word when the answer is 200', async () => {
    const { asked, port } = await listen(200);
    expect(await check({ ADMIN_PORT: port })).to.deep.equal({ code: 0, signal: null, errors: '' });
    expect(asked).to.deep.equal(['/healthz']);
  });

  it('requests the given path, on loopback if the admin listener is bound to every address', async () => {
    const { asked, port } = await listen(200);
    expect((await check({ ADMIN_PORT: port, ADMIN_HOST: '0.0.0.0' }, '/readyz')).code).to.equal(0);
    expect(asked).to.deep.equal(['/readyz']);
  });

  it('puts an address of IPv6 as it has to be', async () => {
    const { errors } = await check({ ADMIN_PORT: '1', ADMIN_HOST: '::1' });
    expect(errors).to.match(/^http:\/\/\[::1\]:1\/healthz: /);
  });

  it('ends with exit code 1 and the answer when it is another', async () => {
    const { port } = await listen(503);
    const { code, errors } = await check({ ADMIN_PORT: port }, '/readyz');
    expect(code).to.equal(1);
    expect(errors).to.equal(`http://127.0.0.1:${port}/readyz answered 503: {"status":"it is"}\n`);
  });

  it('says in one line that there is no answer, or that none is meant to come', async () => {
    const { port } = await listen();
    expect(await check({ ADMIN_PORT: port })).to.deep.equal({
      code: 1,
      signal: null,
      errors: `http://127.0.0.1:${port}/healthz: other side closed\n`,
    });
    expect(await check({ ADMIN_PORT: 'off' })).to.deep.equal({
      code: 1,
      signal: null,
      errors: 'ADMIN_PORT is off: set a port, or start the container without its health check\n',
    });
  });
});
