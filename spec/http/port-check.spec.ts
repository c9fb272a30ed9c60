import dns from 'node:dns';
import { createServer, type Server } from 'node:net';
import { expect } from 'chai';
import { checkPorts } from '../../main/http/port-check.ts';
import { afterTest } from '../support/cleanup.ts';
import { listenLocally } from '../support/free-port.ts';

/** Returns a server that listens on a free port. */
async function listening(): Promise<{ server: Server; port: number }> {
  const server = createServer();
  return { server, port: await listenLocally(server) };
}

const planned = (port: number, name = 'A', host = '127.0.0.1') => ({
  host,
  port,
  variables: { host: `${name}_HOST`, port: `${name}_PORT` },
});

async function failure(...listeners: Parameters<typeof checkPorts>[0]): Promise<string | undefined> {
  return checkPorts(listeners).then(
    () => undefined,
    (error: Error) => error.message,
  );
}

describe('checkPorts', () => {
  it('releases free ports', async () => {
    const { server, port } = await listening();
    await new Promise((resolve) => server.close(resolve));
    expect(await failure(planned(port), planned(0))).to.equal(undefined);
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  });

  it('does not blame a listener with the same port on another address', async () => {
    const { port } = await listening();
    const elsewhere = { ...planned(port), host: '127.0.0.2' };
    expect(await failure(elsewhere, planned(port, 'B'))).to.match(new RegExp(`^port ${port} is in use: .*B_PORT`));
  });

  it('does not bind to a port that other processes share', async () => {
    const { port } = await listening();
    expect(await failure({ ...planned(port), reusePort: true })).to.equal(undefined);
  });

  it('binds to no port while the name of another listener is being resolved', async () => {
    const { server, port } = await listening();
    await new Promise((resolve) => server.close(resolve));
    const answer = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const { lookup } = dns.promises;
    afterTest(() => {
      dns.promises.lookup = lookup;
    });
    dns.promises.lookup = (async (host: string) => {
      if (host !== 'slow') return lookup(host);
      asked.resolve();
      await answer.promise;
      return { address: '127.0.0.1' };
    }) as typeof lookup;
    const ended = failure(planned(port), planned(0, 'B', 'slow'));
    await asked.promise;
    const other = createServer();
    afterTest(() => new Promise((resolve) => other.close(resolve)));
    await new Promise<void>((resolve) => other.listen(port, '127.0.0.1', resolve));
    answer.resolve();
    expect(await ended).to.match(new RegExp(`^port ${port} is in use`));
  });
});
