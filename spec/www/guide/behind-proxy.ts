import { expect } from 'chai';
import { afterTest, onceForSuite } from '../../support/cleanup.ts';
import { post, type RunningServices, startServices } from '../../support/program.ts';
import { describeWith, lackingProgram } from '../../support/requirements.ts';
import { connect } from '../../support/websocket.ts';
import { ask, type FrontProxy, open, PASSWORD, TASKS, TICKER } from './proxy.ts';

const AUTHORIZATION = `Basic ${Buffer.from(`submitter:${PASSWORD}`).toString('base64')}`;

/** Settings from the guide, and a limit that shows whose address the services count. */
const ENV = { TRUST_PROXY: '1', ALLOWED_HOSTS: `${TICKER},${TASKS}`, TOKEN_REQUESTS_PER_MINUTE: '1' };

/** Defines the specs of the services behind a proxy with the guide's configuration. */
export function describeBehind(name: string, start: (services: RunningServices) => Promise<FrontProxy>): void {
  describeWith(lackingProgram(name, 'openssl'), `the ${name} of the guide`, () => {
    const running = onceForSuite(async () => {
      const services = await startServices({ env: ENV });
      return { services, proxy: await start(services) };
    });

    it('passes the stream on', async () => {
      const { services, proxy } = running();
      const { host, port, headers, ...tls } = proxy.to(TICKER);
      const { status, body } = await ask(proxy, TICKER, '/auth/token', { body: { api_key: services.apiKey } });
      expect(status).to.equal(200);
      const { token } = JSON.parse(body);
      const client = await connect(`wss://${host}:${port}/ws/ticker`, { token, headers, ...tls });
      for (let tick = 0; tick < 3; tick++) await client.nextOf('ticker');
      client.socket.close(1000);
      expect(await client.closed).to.include({ code: 1000 });
    });

    it('tells the services the address of the client, whatever X-Forwarded-For the client sends', async () => {
      const { services, proxy } = running();
      const exchange = async (localAddress: string, claimed: string) => {
        const body = { api_key: services.apiKey };
        return (await ask(proxy, TICKER, '/auth/token', { body, localAddress, 'X-Forwarded-For': claimed })).status;
      };
      expect(await exchange('127.0.0.2', '192.0.2.1')).to.equal(200);
      expect(await exchange('127.0.0.2', '192.0.2.2')).to.equal(429);
      expect(await exchange('127.0.0.3', '192.0.2.2')).to.equal(200);
    });

    it('requires the password for the task queue', async () => {
      const { proxy } = running();
      const body = { action: 'sum', data: { numbers: [1, 2] } };
      expect((await ask(proxy, TASKS, '/tasks', { body })).status).to.equal(401);
      expect((await ask(proxy, TASKS, '/tasks', { body, Authorization: AUTHORIZATION })).status).to.equal(202);
    });

    it('passes events on without delay', async () => {
      const { services, proxy } = running();
      const events = await open(proxy, TASKS, '/tasks/events', { Authorization: AUTHORIZATION });
      afterTest(() => events.destroy());
      const { body } = await post(`${services.tasks}/tasks`, { action: 'sum' });
      const { id } = body as { id: string };
      let text = '';
      for await (const chunk of events) {
        text += chunk;
        if (new RegExp(`event: completed\ndata: .*${id}`).test(text)) break;
      }
      expect(text).to.match(new RegExp(`event: accepted\ndata: .*${id}`));
    });
  });
}
