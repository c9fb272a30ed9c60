import { JetStreamApiError } from '@nats-io/jetstream';
import { Kvm } from '@nats-io/kv';
import { nanos } from '@nats-io/transport-node';
import { expect } from 'chai';
import { connectNats } from '../../main/cluster/nats-link.ts';
import { afterTest } from '../support/cleanup.ts';
import { freePort } from '../support/free-port.ts';
import { captureLog } from '../support/log.ts';
import { type NatsServer, startNatsServer } from '../support/nats-server.ts';
import { describeWithNats } from '../support/servers.ts';
import { eventually } from '../support/until.ts';

const config = (url: string) => ({ url, prefix: 'spec', replicas: 1 });

describeWithNats('NatsLink.openBucket', () => {
  it('keeps the entries of a bucket that exists with other settings, and updates the settings', async () => {
    const link = await (await startNatsServer()).link();
    const settings = { max_age: nanos(60_000), max_msgs: 5, max_bytes: 4096 };
    await (await new Kvm(link.jetstream).create('old', { history: 2, ttl: 30_000, allow_direct: true })).put(
      'key',
      'x',
    );
    for (const bucket of [await link.openBucket('old', settings), await link.openBucket('old', settings)]) {
      expect((await bucket.get('key'))?.string()).to.equal('x');
      const { config } = (await bucket.status()).streamInfo;
      expect(config).to.include({ ...settings, max_msgs_per_subject: 1, allow_direct: false, discard: 'new' });
    }
  });

  it('creates a bucket with the same settings, whether or not it existed', async () => {
    const link = await (await startNatsServer()).link();
    const settings = { max_age: nanos(60_000), max_bytes: 4096 };
    const configs = [];
    await new Kvm(link.jetstream).create('old', { ttl: 60_000, max_bytes: 4096, allow_direct: false });
    for (const name of ['old', 'new']) {
      const { config } = (await (await link.openBucket(name, settings)).status()).streamInfo;
      configs.push({ ...config, name: '', subjects: config.subjects.map((subject) => subject.replace(name, '')) });
    }
    expect(configs[0]).to.deep.equal(configs[1]);
  });
});

describeWithNats('NatsLink.setUpStream', () => {
  it('succeeds on all nodes that start at the same moment', async () => {
    const server = await startNatsServer();
    const links = await Promise.all([server.link(), server.link(), server.link(), server.link()]);
    for (let n = 0; n < 200; n++)
      await Promise.all(links.map((link) => link.setUpStream(`stream-${n}`, { subjects: [`${n}.*`], max_msgs: 10 })));
  });

  it('updates a stream whose creation by another node is reported as an overlap of subjects', async () => {
    const link = await (await startNatsServer()).link();
    const { streams } = link.manager;
    const add = streams.add.bind(streams);
    streams.add = async (config) => {
      await add({ ...config, max_msgs: 5 });
      throw new JetStreamApiError({ code: 400, err_code: 10065, description: 'subjects overlap' });
    };
    await link.setUpStream('stream', { subjects: ['a.*'], max_msgs: 10 });
    expect((await streams.info('stream')).config).to.include({ max_msgs: 10 });
  });

  it('fails with a one-line error if another stream has subjects of the stream', async () => {
    const link = await (await startNatsServer()).link();
    await link.setUpStream('other', { subjects: ['a.>'] });
    const error = await link.setUpStream('stream', { subjects: ['a.*'] }).catch((reason: Error) => reason);
    expect((error as Error).message).to.equal(
      'the JetStream stream stream cannot be created, because another stream already has its subjects (a.*): ' +
        'delete that stream, or set NATS_PREFIX to another value',
    );
  });
});

/** Starts three servers that form a cluster, and waits until a stream with three replicas can be created. */
async function startCluster(): Promise<NatsServer[]> {
  const ports = await Promise.all([freePort(), freePort(), freePort()]);
  const routes = ports.map((port) => `nats://127.0.0.1:${port}`).join(',');
  const servers = await Promise.all(
    ports.map((port, index) =>
      startNatsServer({
        options: [
          ...['--cluster_name', 'spec', '--server_name', `spec-${index}`],
          ...['--cluster', `nats://127.0.0.1:${port}`, '--routes', routes],
        ],
      }),
    ),
  );
  await eventually(
    () => failureOf(servers[0], 'probe'),
    (failure) => failure === undefined,
  );
  return servers;
}

/** Connects to a server and sets up a replicated stream, as a node does at its start. @returns the error's message */
async function failureOf(server: NatsServer | undefined, stream: string, replicas = 3): Promise<string | undefined> {
  try {
    const link = await connectNats({ ...config(server?.url ?? ''), replicas }, captureLog().log);
    await link.setUpStream(stream, { subjects: [stream], max_msgs: 10 }).finally(() => link.connection.close());
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

describeWithNats('a node with three replicas', () => {
  it('starts while one of the three servers is down, and reports in one line that there are too few servers', async () => {
    const servers = await startCluster();
    await eventually(
      () => failureOf(servers[0], 'existing'),
      (failure) => failure === undefined,
    );
    await servers[2]?.kill();
    await eventually(
      () => failureOf(servers[1], 'existing'),
      (failure) => failure === undefined,
    );
    expect(await failureOf(servers[1], 'new', 5)).to.match(
      /^the NATS cluster cannot store NATS_REPLICAS=5 copies: no suitable peers.*: start more servers, or set NATS_REPLICAS to a lower value$/,
    );
  });
});

describeWithNats('the connection to NATS', () => {
  it('fails with a one-line error, without the password, if no server listens', async () => {
    const port = await freePort();
    const url = `nats://user:hunter2@127.0.0.1:${port}`;
    const error = await connectNats(config(url), captureLog().log).catch((reason: Error) => reason);
    expect((error as Error).message).to.match(
      new RegExp(`^cannot reach NATS at 127\\.0\\.0\\.1:${port}: .+: start it, or fix NATS_URL$`),
    );
    expect((error as Error).message).not.to.include('hunter2');
  });

  it('fails with a one-line error if the server has no JetStream', async () => {
    const { url } = await startNatsServer({ jetStream: false });
    const error = await connectNats(config(url), captureLog().log).catch((reason: Error) => reason);
    const { host } = new URL(url);
    expect((error as Error).message).to.equal(
      `the NATS server at ${host} has no JetStream: start it with "nats-server -js"`,
    );
  });

  it('fails with a one-line error if there are fewer servers than replicas, before it creates a stream', async () => {
    const server = await startNatsServer();
    const error = await connectNats({ ...config(server.url), replicas: 3 }, captureLog().log).catch((reason) => reason);
    expect((error as Error).message).to.equal(
      'NATS_REPLICAS is 3, but the NATS cluster has 1 server: set NATS_REPLICAS to at most 1, or start more servers',
    );
  });

  it('reconnects automatically, and logs it', async () => {
    const server = await startNatsServer();
    const { log, logged } = captureLog();
    const link = await connectNats(config(server.url), log);
    afterTest(() => link.connection.close());
    expect(link.up).to.equal(true);
    await server.kill();
    await logged(({ msg }) => msg === 'the connection to NATS is lost');
    expect(link.up).to.equal(false);
    await server.start();
    await logged(({ msg }) => msg === 'connected to NATS again');
    expect(link.up).to.equal(true);
    await link.connection.flush();
  });
});
