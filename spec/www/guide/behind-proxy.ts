import { execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { afterTest, onceForSuite, temporaryFolder } from '../../support/cleanup.ts';
import { examples } from '../../support/examples.ts';
import { freePort } from '../../support/free-port.ts';
import { post, startServices, watch } from '../../support/program.ts';
import { describeWith, lackingProgram, program } from '../../support/requirements.ts';
import { connect } from '../../support/websocket.ts';

const TICKER = 'ticker.example.com';
const TASKS = 'tasks.example.com';
const PASSWORD = randomUUID();
const AUTHORIZATION = { Authorization: `Basic ${Buffer.from(`submitter:${PASSWORD}`).toString('base64')}` };

/** Settings from the guide, and a limit that shows whose address the services count. */
const ENV = { TRUST_PROXY: '1', ALLOWED_HOSTS: `${TICKER},${TASKS}`, TOKEN_REQUESTS_PER_MINUTE: '1' };

/** Writes a configuration with the sites of the guide, but for addresses and paths. Returns the proxy's arguments. */
type Configure = (sites: string, folder: string, port: number) => Promise<string[]>;

export const configureNginx: Configure = async (example, folder, port) => {
  await writeFile(join(folder, 'tasks.htpasswd'), `submitter:{PLAIN}${PASSWORD}\n`);
  const sites = example
    .replaceAll('listen 443', `listen 127.0.0.1:${port}`)
    .replaceAll(/\/etc\/ssl\/[\w.]+\.(pem|key)/g, `${folder}/site.$1`)
    .replaceAll('/etc/nginx/', `${folder}/`)
    .replaceAll('/var/log/nginx/', `${folder}/`);
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const temporary = kinds.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(' ');
  // A single process, so that killing it ends nginx.
  const config = `daemon off; master_process off; pid ${folder}/pid; error_log stderr; events {}
    http { access_log off; ${temporary}\n${sites} }`;
  await writeFile(join(folder, 'nginx.conf'), config);
  return ['-c', `${folder}/nginx.conf`, '-e', 'stderr'];
};

export const configureCaddy: Configure = async (example, folder, port) => {
  const hash = execFileSync('caddy', ['hash-password', '--plaintext', PASSWORD], { encoding: 'utf8' }).trim();
  const site = `$1:${port} {\n\tbind 127.0.0.1\n\ttls ${folder}/site.pem ${folder}/site.key`;
  const sites = example.replaceAll(/^([\w.]+\.example\.com) \{/gm, site).replaceAll('HASH', () => hash);
  const options = '{\n\tadmin off\n\tauto_https disable_redirects\n\tservers {\n\t\tprotocols h1 h2\n\t}\n}\n';
  await writeFile(join(folder, 'Caddyfile'), options + sites);
  return ['run', '--config', `${folder}/Caddyfile`, '--adapter', 'caddyfile'];
};

async function start(name: 'nginx' | 'caddy', heading: string, configure: Configure) {
  const services = await startServices({ env: ENV });
  // The proxies do not report the port of a listener on port 0.
  const [folder, port] = [await temporaryFolder(), await freePort()];
  const names = ['-subj', '/CN=example.com', '-addext', `subjectAltName=DNS:${TICKER},DNS:${TASKS}`];
  const files = ['-keyout', `${folder}/site.key`, '-out', `${folder}/site.pem`];
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  execFileSync('openssl', ['req', '-x509', ...key, '-days', '1', ...names, ...files], { stdio: 'ignore' });
  const [example = ''] = examples('www/guide/securing.md', heading, name);
  const sites = example
    .replaceAll('127.0.0.1:8081', new URL(services.ticker).host)
    .replaceAll('127.0.0.1:8080', new URL(services.tasks).host);
  const env = { ...process.env, HOME: folder, XDG_DATA_HOME: folder };
  const { child, errors } = watch(spawn(program(name) ?? name, await configure(sites, folder, port), { env }));

  const to = (servername: string) => ({
    servername,
    ca: readFileSync(`${folder}/site.pem`, 'utf8'),
    headers: { Host: `${servername}:${port}` },
  });
  /** Sends one request to a host name behind the proxy. Does not read the body of the response. */
  async function ask(name: string, path: string, { body, headers, ...own }: RequestOptions & { body?: object } = {}) {
    const { headers: host, ...tls } = to(name);
    const method = body === undefined ? 'GET' : 'POST';
    const options = { ...tls, host: '127.0.0.1', port, path, method, agent: false, ...own };
    const request = httpsRequest({ ...options, headers: { ...host, ...headers } as OutgoingHttpHeaders });
    request.end(body === undefined ? undefined : JSON.stringify(body));
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    afterTest(() => response.destroy());
    return response;
  }
  // Neither proxy reports when it listens.
  while ((await ask(TICKER, '/').catch(() => undefined)) === undefined)
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`${name} ended: ${errors()}`);
  return { services, ask, stream: `wss://127.0.0.1:${port}/ws/ticker`, to };
}

export function describeBehind(name: 'nginx' | 'caddy', heading: string, configure: Configure): void {
  describeWith(lackingProgram(name, 'openssl'), `the ${name} of the guide`, () => {
    const running = onceForSuite(() => start(name, heading, configure));

    it('passes the stream on', async () => {
      const { services, ask, stream, to } = running();
      const answer = await ask(TICKER, '/auth/token', { body: { api_key: services.apiKey } });
      expect(answer.statusCode).to.equal(200);
      const { token } = JSON.parse(await text(answer));
      const client = await connect(stream, { token, ...to(TICKER) });
      for (let tick = 0; tick < 3; tick++) await client.nextOf('ticker');
      client.socket.close(1000);
      expect(await client.closed).to.include({ code: 1000 });
    });

    it('tells the services the address of the client, whatever X-Forwarded-For the client sends', async () => {
      const { services, ask } = running();
      for (const [localAddress, claimed, status] of [
        ['127.0.0.2', '192.0.2.1', 200],
        ['127.0.0.2', '192.0.2.2', 429],
        ['127.0.0.3', '192.0.2.2', 200],
      ] as const) {
        const options = { body: { api_key: services.apiKey }, localAddress, headers: { 'X-Forwarded-For': claimed } };
        expect((await ask(TICKER, '/auth/token', options)).statusCode).to.equal(status);
      }
    });

    it('requires the password for the task queue', async () => {
      const { ask } = running();
      const body = { action: 'sum' };
      expect((await ask(TASKS, '/tasks', { body })).statusCode).to.equal(401);
      expect((await ask(TASKS, '/tasks', { body, headers: AUTHORIZATION })).statusCode).to.equal(202);
    });

    it('passes events on without delay', async () => {
      const { services, ask } = running();
      const events = await ask(TASKS, '/tasks/events', { headers: AUTHORIZATION });
      const { id } = (await post(`${services.tasks}/tasks`, { action: 'sum' })).body;
      let received = '';
      for await (const chunk of events) {
        received += chunk;
        if (new RegExp(`event: completed\ndata: .*${id}`).test(received)) break;
      }
      expect(received).to.match(new RegExp(`event: accepted\ndata: .*${id}`));
    });
  });
}
