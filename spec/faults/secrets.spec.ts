import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { newSecret, request, startServices } from '../support/program.ts';
import { connectRaw } from '../support/raw-connection.ts';
import { connect } from '../support/websocket.ts';

describe('secrets', () => {
  it('reach no log line and no error body, whatever goes wrong', async () => {
    const secret = newSecret();
    const callbacks = { CALLBACK_HOSTS: '127.0.0.1:1', CALLBACK_SECRET: secret };
    const env = { LOG_LEVEL: 'trace', BODY_LIMIT: '2000', SHUTDOWN_TIMEOUT_MS: '0', ...callbacks };
    const services = await startServices({ env });
    const { ticker, tasks, stream, apiKey } = services;
    const token = await services.token();
    const revoked = await services.token();
    await request(`${ticker}/auth/token`, { method: 'DELETE', headers: { Authorization: `Bearer ${revoked}` } });
    const port = Number(new URL(ticker).port);
    const bodies: string[] = [];
    const keep = async (answer: Promise<{ body: unknown }>) => bodies.push(JSON.stringify((await answer).body));

    const posted = (url: string, body: string) => keep(request(url, { method: 'POST', body }));
    for (const base of [ticker, tasks]) {
      for (const bearer of [token, revoked, `${token}x`]) {
        const headers = { Authorization: `Bearer ${bearer}` };
        await keep(request(`${base}/ws/ticker?token=${bearer}`));
        await keep(request(`${base}/nowhere/${bearer}?token=${bearer}`));
        await keep(request(`${base}/tasks`, { headers }));
        await keep(request(`${base}/auth/token`, { method: 'PUT', headers }));
      }
      await posted(`${base}/auth/token`, `{"api_key": "${apiKey}"`);
      await posted(`${base}/tasks`, `{"action": ${apiKey}`);
      for (const key of [[apiKey], `${apiKey}x`, apiKey.padEnd(5000)])
        await posted(`${base}/auth/token`, JSON.stringify({ api_key: key }));
    }
    for (const bearer of [revoked, `${token}x`]) {
      await connect(stream, { token: bearer }).catch(() => {});
      const protocol = `Sec-WebSocket-Protocol: bearer.${bearer}`;
      const raw = await connectRaw(port, 'GET /ws/ticker HTTP/1.1', 'Host: localhost', protocol);
      raw.socket.destroy();
    }
    // A header without a colon.
    const lines = [`GET /?token=${token} HTTP/1.1`, 'Host: localhost', `Authorization Bearer ${token}`];
    bodies.push(await (await connectRaw(port, ...lines)).ended);
    const client = await connect(stream, { token });
    client.socket.send(token);
    client.socket.send(Buffer.alloc(5000, token));
    await client.closed;

    await posted(`${tasks}/tasks`, '{"action":"sum","callback_url":"http://127.0.0.1:1/"}');
    await services.logged(({ msg }) => msg === 'task failed');
    await rename(join(services.env.DATA_DIR, 'auth.db'), join(services.env.DATA_DIR, 'away'));
    await posted(`${ticker}/auth/token?token=${token}`, `{"api_key":"${apiKey}"}`);
    await services.end();

    const logged = services.output().split('\n');
    expect(logged.length).to.be.above(4);
    const [start, ...others] = logged.filter((line) => line.includes(apiKey));
    expect(start).to.include('demo API key created');
    expect(others).to.deep.equal([]);
    for (const each of [token, revoked, 'v3.local.', secret.replace('whsec_', '')]) {
      // The rest of a redacted token is not secret.
      expect(services.output().replaceAll('v3.local.[redacted]', '')).to.not.include(each);
      expect(services.errors()).to.not.include(each);
      expect(bodies.join('\n')).to.not.include(each);
    }
    expect(bodies.join('\n')).to.not.include(apiKey);
  });
});
