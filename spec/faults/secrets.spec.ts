import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { post, request, startServices } from '../support/program.ts';
import { connectRaw } from '../support/raw-connection.ts';
import { connect } from '../support/websocket.ts';

describe('secrets', () => {
  it('reach no log line and no error body, whatever goes wrong', async () => {
    const DATA_DIR = await temporaryFolder();
    const env = { DATA_DIR, LOG_LEVEL: 'trace', BODY_LIMIT: '2000' };
    const services = await startServices({ env });
    const { ticker, tasks, stream, apiKey } = services;
    const token = await services.token();
    const revoked = await services.token();
    await request(`${ticker}/auth/token`, { method: 'DELETE', headers: { Authorization: `Bearer ${revoked}` } });
    const port = Number(new URL(ticker).port);
    const bodies: string[] = [];
    const keep = async (answer: Promise<{ body: unknown }>) => bodies.push(JSON.stringify((await answer).body));

    for (const base of [ticker, tasks]) {
      for (const bearer of [token, revoked, `${token}x`]) {
        await keep(request(`${base}/ws/ticker?token=${bearer}`));
        await keep(request(`${base}/nowhere/${bearer}?token=${bearer}`));
        await keep(request(`${base}/tasks`, { headers: { Authorization: `Bearer ${bearer}` } }));
        await keep(request(`${base}/auth/token`, { method: 'PUT', headers: { Authorization: `Bearer ${bearer}` } }));
      }
      await keep(request(`${base}/auth/token`, { method: 'POST', body: `{"api_key": "${apiKey}"` }));
      await keep(request(`${base}/tasks`, { method: 'POST', body: `{"action": ${apiKey}` }));
      await keep(post(`${base}/auth/token`, { api_key: [apiKey] }));
      await keep(post(`${base}/auth/token`, { api_key: `${apiKey}x` }));
      await keep(post(`${base}/auth/token`, { api_key: apiKey.padEnd(5000) }));
    }
    for (const bearer of [revoked, `${token}x`]) {
      await connect(stream, { token: bearer }).catch(() => {});
      const raw = await connectRaw(
        port,
        'GET /ws/ticker HTTP/1.1',
        'Host: localhost',
        `Sec-WebSocket-Protocol: bearer.${bearer}`,
      );
      raw.socket.destroy();
    }
    const broken = await connectRaw(
      port,
      `GET /?token=${token} HTTP/1.1`,
      'Host: localhost',
      `Authorization Bearer ${token}`,
    );
    bodies.push(await broken.ended);
    const client = await connect(stream, { token });
    client.socket.send(token);
    client.socket.send(Buffer.alloc(5000, token));
    await client.closed;

    await rename(join(DATA_DIR, 'auth.db'), join(DATA_DIR, 'away'));
    await keep(post(`${ticker}/auth/token`, { api_key: apiKey }));
    await keep(request(`${ticker}/auth/token?token=${token}`, { method: 'POST', body: `{"api_key":"${apiKey}"}` }));
    services.child.kill('SIGTERM');
    await services.exited;

    const lines = services.output().split('\n');
    expect(lines.length).to.be.above(4);
    const [start, ...others] = lines.filter((line) => line.includes(apiKey));
    expect(start).to.include('demo API key created');
    expect(others).to.deep.equal([]);
    for (const secret of [token, revoked, 'v3.local.']) {
      // The rest of a redacted token is not secret.
      expect(services.output().replaceAll('v3.local.[redacted]', '')).to.not.include(secret);
      expect(services.errors()).to.not.include(secret);
      expect(bodies.join('\n')).to.not.include(secret);
    }
    expect(bodies.join('\n')).to.not.include(apiKey);
  });
});
