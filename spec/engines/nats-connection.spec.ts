import { expect } from 'chai';
import { connectNats, type NatsLink } from '../../main/engines/nats-connection.ts';
import { shareEvents } from '../../main/engines/shared-events.ts';
import type { TaskEvent } from '../../main/tasks/queue/driver.ts';
import { freePort, startNatsServer } from '../cluster/nats-server.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { describeWithNats } from '../support/servers.ts';
import { until } from '../support/until.ts';

async function link(url: string, log = captureLog().log): Promise<NatsLink> {
  const made = await connectNats(url, log);
  afterTest(() => made.close());
  return made;
}

describeWithNats('the connection to NATS', () => {
  it('is refused in one line, without the password, where nobody listens', async () => {
    const port = await freePort('127.0.0.1');
    const url = `nats://user:hunter2@127.0.0.1:${port}`;
    const error = await connectNats(url, captureLog().log).catch((reason: Error) => reason);
    expect((error as Error).message).to.match(
      new RegExp(`^cannot reach NATS at 127\\.0\\.0\\.1:${port}: .+: start it, or mend NATS_URL$`),
    );
    expect((error as Error).message).not.to.include('hunter2');
  });

  it('comes back by itself, and says so', async () => {
    const server = await startNatsServer();
    const { log, logged } = captureLog();
    const { connection, connected } = await link(server.url, log);
    expect(connected()).to.equal(true);
    await server.stop();
    await logged(({ msg }) => msg === 'the connection to NATS is lost');
    expect(connected()).to.equal(false);
    await server.start();
    await logged(({ msg }) => msg === 'connected to NATS again');
    expect(connected()).to.equal(true);
    await connection.flush();
  });
});

describeWithNats('events that nodes share', () => {
  const event = (id: string): TaskEvent => ({ event: 'completed', id });

  async function node(url: string) {
    const seen: TaskEvent[] = [];
    const { connection, connected, ...rest } = await link(url);
    const shared = shareEvents({ connection, connected, ...rest }, 'spec', (each) => seen.push(each));
    await connection.flush();
    return { seen, shared, connection, connected };
  }

  it('are told on every node, once', async () => {
    const { url } = await startNatsServer();
    const [one, other] = [await node(url), await node(url)];
    one.shared.note(event('a'));
    expect(one.seen).to.deep.equal([event('a')]);
    await until(() => other.seen.length === 1);
    other.shared.note(event('b'));
    await until(() => one.seen.length === 2);
    await one.connection.flush();
    expect([one.seen, other.seen]).to.deep.equal([
      [event('a'), event('b')],
      [event('a'), event('b')],
    ]);
  });

  it('are told here alone while NATS is away, and everywhere afterwards', async () => {
    const server = await startNatsServer();
    const [one, other] = [await node(server.url), await node(server.url)];
    await server.stop();
    await until(() => !one.connected() && !other.connected());
    one.shared.note(event('a'));
    await server.start();
    await until(() => one.connected() && other.connected());
    await other.connection.flush();
    one.shared.note(event('b'));
    await until(() => other.seen.length > 0);
    expect([one.seen, other.seen]).to.deep.equal([[event('a'), event('b')], [event('b')]]);
  });
});
