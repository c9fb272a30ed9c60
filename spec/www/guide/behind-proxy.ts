import { execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { afterTest, onceForSuite, temporaryFolder } from '../../support/cleanup.ts';
import { examples } from '../../support/examples.ts';
import { freePort } from '../../support/free-port.ts';
import { post, type RunningServices, startServices, watch } from '../../support/program.ts';
import { describeWith, lackingProgram, program } from '../../support/requirements.ts';
import { connect } from '../../support/websocket.ts';

const FILE = 'www/guide/securing.md';
const TICKER = 'ticker.example.com';
const TASKS = 'tasks.example.com';
const PASSWORD = randomUUID();

/** A proxy in front of both services, with TLS for the guide's two host names. */
interface FrontProxy {
  /** Options of a TLS client that connects to one of the host names. */
  to(name: string): { host: string; port: number; servername: string; ca: string; headers: { Host: string } };
}

interface Place {
  folder: string;
  port: number;
  services: RunningServices;
}

/** Starts nginx with the guide's configuration. Only addresses and paths are replaced. */
export async function startNginx(services: RunningServices): Promise<FrontProxy> {
  const place = await prepare(services);
  const { folder, port } = place;
  await writeFile(join(folder, 'tasks.htpasswd'), `submitter:{PLAIN}${PASSWORD}\n`);
  const sites = behind(place, examples(FILE, 'nginx', 'nginx')[0])
    .replaceAll('listen 443', `listen 127.0.0.1:${port}`)
    .replaceAll(/\/etc\/ssl\/[\w.]+\.(pem|key)/g, `${folder}/site.$1`)
    .replaceAll('/etc/nginx/', `${folder}/`)
    .replaceAll('/var/log/nginx/', `${folder}/`);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${folder}/${kind};`,
  );
  // A single process, so that killing it ends nginx.
  const config = `daemon off; master_process off; pid ${folder}/pid; error_log stderr; events {}
    http { access_log off; ${temporary.join(' ')}\n${sites} }`;
  await writeFile(join(folder, 'nginx.conf'), config);
  return run(place, 'nginx', ['-c', `${folder}/nginx.conf`, '-e', 'stderr']);
}

/** Starts Caddy with the guide's configuration. */
export async function startCaddy(services: RunningServices): Promise<FrontProxy> {
  const place = await prepare(services);
  const { folder, port } = place;
  const hash = execFileSync('caddy', ['hash-password', '--plaintext', PASSWORD], { encoding: 'utf8' }).trim();
  const sites = behind(place, examples(FILE, 'Caddy', 'caddy')[0])
    .replaceAll(
      /^([\w.]+\.example\.com) \{/gm,
      `$1:${port} {\n\tbind 127.0.0.1\n\ttls ${folder}/site.pem ${folder}/site.key`,
    )
    .replaceAll('HASH', () => hash);
  const options = '{\n\tadmin off\n\tauto_https disable_redirects\n\tservers {\n\t\tprotocols h1 h2\n\t}\n}\n';
  await writeFile(join(folder, 'Caddyfile'), options + sites);
  return run(place, 'caddy', ['run', '--config', `${folder}/Caddyfile`, '--adapter', 'caddyfile']);
}

interface Options {
  body?: unknown;
  localAddress?: string;
  [header: string]: unknown;
}

/** Sends one request to a host name behind the proxy. */
async function ask(proxy: FrontProxy, name: string, path: string, options: Options = {}) {
  const response = await open(proxy, name, path, options);
  return { status: response.statusCode ?? 0, body: await text(response) };
}

/** Like {@link ask}, but does not read the response. */
async function open(
  proxy: FrontProxy,
  name: string,
  path: string,
  { body, localAddress, ...own }: Options,
): Promise<IncomingMessage> {
  const target = proxy.to(name);
  const headers = { ...target.headers, ...own } as Record<string, string>;
  const method = body === undefined ? 'GET' : 'POST';
  const from = localAddress === undefined ? {} : { localAddress };
  const request = httpsRequest({ ...target, path, method, headers, agent: false, ...from });
  request.end(body === undefined ? undefined : JSON.stringify(body));
  return (await once(request, 'response'))[0];
}

/**
 * Creates a folder with a certificate for both host names, and picks a free port. The proxies do not report the port
 * of a listener on port 0.
 */
async function prepare(services: RunningServices): Promise<Place> {
  const [folder, port] = [await temporaryFolder(), await freePort()];
  const names = ['-subj', '/CN=example.com', '-addext', `subjectAltName=DNS:${TICKER},DNS:${TASKS}`];
  const files = ['-keyout', `${folder}/site.key`, '-out', `${folder}/site.pem`];
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  execFileSync('openssl', ['req', '-x509', ...key, '-days', '1', ...names, ...files], { stdio: 'ignore' });
  return { folder, port, services };
}

function behind({ services }: Place, example: string | undefined): string {
  if (example === undefined) throw new Error(`${FILE} has no such example`);
  return example
    .replaceAll('127.0.0.1:8081', new URL(services.ticker).host)
    .replaceAll('127.0.0.1:8080', new URL(services.tasks).host);
}

async function run({ folder, port }: Place, name: string, args: string[]): Promise<FrontProxy> {
  const proxy: FrontProxy = {
    to: (servername) => ({
      host: '127.0.0.1',
      port,
      servername,
      ca: readFileSync(`${folder}/site.pem`, 'utf8'),
      headers: { Host: `${servername}:${port}` },
    }),
  };
  const child = spawn(program(name) ?? name, args, { env: { ...process.env, HOME: folder, XDG_DATA_HOME: folder } });
  const { exited, errors } = watch(child);
  let ended = false;
  void exited.then(() => {
    ended = true;
  });
  // Neither proxy reports when it listens.
  for (;;) {
    const answer = await ask(proxy, TICKER, '/').catch(() => undefined);
    if (answer !== undefined) return proxy;
    if (ended) throw new Error(`${name} ended: ${errors()}`);
  }
}

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
