import { expect } from 'chai';
import { connectNats } from '../../main/cluster/nats-connection.ts';
import { NatsLink } from '../../main/cluster/nats-link.ts';
import { afterTest } from '../support/cleanup.ts';
import { freePort } from '../support/free-port.ts';
import { captureLog } from '../support/log.ts';
import { startNatsServer } from '../support/nats-server.ts';
import { describeWithNats } from '../support/servers.ts';

describeWithNats('the connection to NATS', () => {
  it('fails with a one-line error, without the password, if no server listens', async () => {
    const port = await freePort();
    const url = `nats://user:hunter2@127.0.0.1:${port}`;
    const error = await connectNats(url, captureLog().log).catch((reason: Error) => reason);
    expect((error as Error).message).to.match(
      new RegExp(`^cannot reach NATS at 127\\.0\\.0\\.1:${port}: .+: start it, or fix NATS_URL$`),
    );
    expect((error as Error).message).not.to.include('hunter2');
  });

  it('reconnects automatically, and logs it', async () => {
    const server = await startNatsServer();
    const { log, logged } = captureLog();
    const connection = await connectNats(server.url, log);
    afterTest(() => connection.close());
    const link = new NatsLink(connection);
    expect(link.up).to.equal(true);
    await server.kill();
    await logged(({ msg }) => msg === 'the connection to NATS is lost');
    expect(link.up).to.equal(false);
    await server.start();
    await logged(({ msg }) => msg === 'connected to NATS again');
    expect(link.up).to.equal(true);
    await connection.flush();
  });
});
