import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect } from 'chai';
import { closeCodes } from '../../../main/ticker/close-codes.ts';
import { describeInBrowser, visit } from '../../browser/chromium.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { adapt, examples, paste, section } from '../../support/examples.ts';
import { post, startServices, watch } from '../../support/program.ts';
import { describeWith, lacking, program } from '../../support/requirements.ts';

const FILE = 'www/guide/clients.md';
const SYMBOLS = ['BTC-USD', 'ETH-USD', 'SOL-USD'];

/** Path of a Python with the package that the example needs: the first on the PATH, or Debian's. */
const python = [program('python3'), '/usr/bin/python3'].find((each) => {
  try {
    return each !== undefined && execFileSync(each, ['-c', 'import websockets'], { stdio: 'ignore' }) !== undefined;
  } catch {
    return false;
  }
});

/** Starts services, and writes an example adapted to them into a file. */
async function prepare(heading: string, language: string, file: string) {
  const services = await startServices();
  const path = join(await temporaryFolder(), file);
  await writeFile(path, adapt(examples(FILE, heading, language)[0], services));
  return { services, path, env: { API_KEY: services.apiKey } };
}

/** Serves an empty page of another origin. Returns its URL. */
async function blankPage(): Promise<string> {
  const server = createServer((_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/html', Connection: 'close' }).end('<!doctype html>');
  });
  afterTest(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** Waits until a client has printed two lines of prices. */
async function expectPrices(client: ReturnType<typeof watch>): Promise<void> {
  let text = '';
  for await (const chunk of client.child.stdout as NodeJS.ReadableStream) {
    text += chunk;
    if (text.split('\n').length > 2) break;
  }
  const [first, second] = text.split('\n').map((line) => JSON.parse(line || 'null')) as { symbol: string }[][];
  for (const prices of [first, second]) expect(prices?.map(({ symbol }) => symbol)).to.have.members(SYMBOLS);
}

describe('the clients of the guide', () => {
  it('stream to Node', async () => {
    const { path, env } = await prepare('Node', 'js', 'client.mjs');
    await expectPrices(watch(paste(`exec node ${path}`, env)));
  });

  it('end in Node where connecting again would not help, and nowhere else', async () => {
    const { path } = await prepare('Node', 'js', 'client.mjs');
    const client = watch(paste(`exec node ${path}`, { API_KEY: 'none' }));
    expect(await client.exited).to.include({ code: 1 });
    expect(client.errors()).to.equal('closed: 401 invalid API key\n');
    // Each reconnect fetches a new token, so 4001 and 4003 need not end this client.
    const final = Object.values(closeCodes).filter(({ code, reconnect }) => !reconnect && ![4001, 4003].includes(code));
    const [, list = ''] = /\[401, ([\d, ]+)\]/.exec(section(FILE, 'Node')) ?? [];
    expect(list.split(', ').map(Number)).to.have.members(final.map(({ code }) => code));
  });

  it('come back in Node after a restart of the server', async () => {
    const DATA_DIR = await temporaryFolder();
    const before = await startServices({ env: { DATA_DIR } });
    const path = join(await temporaryFolder(), 'client.mjs');
    await writeFile(path, adapt(examples(FILE, 'Node', 'js')[0], before));
    const client = watch(paste(`exec node ${path}`, { API_KEY: before.apiKey }));
    const nextPrices = () => new Promise((resolve) => client.child.stdout?.once('data', resolve));
    await nextPrices();
    before.child.kill();
    await before.exited;
    await startServices({ env: { DATA_DIR, TICKER_PORT: new URL(before.ticker).port } });
    await nextPrices();
    expect(client.errors()).to.match(/^closed: 1001 server is shutting down\n/);
  });

  it('stream to wscat', async () => {
    const services = await startServices();
    const shell = paste(adapt(examples(FILE, 'The shell')[0], services), { API_KEY: services.apiKey });
    const client = watch(shell);
    await client.logged(({ type }) => type === 'ticker');
    shell.stdin.end();
    await client.exited;
    expect(client.lines[0]).to.deep.equal({ type: 'welcome', user_id: 'user:demo' });
  });

  it('submit a task twice and make it once', async () => {
    const services = await startServices();
    const client = watch(paste(adapt(examples(FILE, 'Tasks')[0], services)));
    expect(await client.exited).to.include({ code: 0 });
    const [first, second] = client.lines;
    expect(first).to.deep.include({ status: 'queued' });
    expect(second).to.deep.equal(first);
  });

  it('wait for the row', async () => {
    const services = await startServices();
    const client = watch(paste(adapt(examples(FILE, 'Tasks')[1], services)));
    expect(await client.exited).to.include({ code: 0 });
    expect(JSON.parse(client.output())).to.include({ status: 'completed', result: '{"output":"HELLO"}' });
  });

  it('follow the events of tasks', async () => {
    const services = await startServices();
    const client = watch(paste(`exec ${adapt(examples(FILE, 'Tasks')[2], services)}`));
    const said = async (text: string) => {
      while (!client.output().includes(text)) await once(client.child.stdout as NodeJS.ReadableStream, 'data');
    };
    await said('id: ');
    await post(`${services.tasks}/tasks`, { action: 'sum' });
    await said('event: completed\n');
    expect(client.output()).to.match(/event: accepted\n[\s\S]*event: started\n/);
  });
});

describeWith(
  python === undefined ? lacking('python3 with websockets', 'python3-websockets') : undefined,
  'the Python client of the guide',
  () => {
    it('streams', async () => {
      const { path, env } = await prepare('Python', 'python', 'client.py');
      await expectPrices(watch(paste(`exec ${python} ${path}`, env)));
    });
  },
);

describeInBrowser('the browser client of the guide', () => {
  it('streams to a page of any origin', async () => {
    const services = await startServices();
    const example = adapt(examples(FILE, 'Browser', 'js')[0], services);
    await visit(await blankPage(), {}, async (page) => {
      const logged = page.waitForEvent('console');
      await page.evaluate(`const API_KEY = '${services.apiKey}'; (async () => { ${example} })()`);
      expect((await logged).text()).to.match(/^[A-Z]{3}-USD \d+(\.\d+)?$/);
    });
  });
});
