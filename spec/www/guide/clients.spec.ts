import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import { closeCodes } from '../../../main/ticker/pid-registry.ts';
import { onceForSuite, temporaryFolder } from '../../support/cleanup.ts';
import { adapt, examples, outputOf, paste, section } from '../../support/examples.ts';
import { post, type RunningServices, startServices, watch } from '../../support/program.ts';
import { lackingPython, python } from '../../support/python.ts';
import { describeWith } from '../../support/requirements.ts';

const CLIENT = 'www/guide/clients.md';
const OTHERS = 'www/guide/other-clients.md';
const SYMBOLS = ['BTC-USD', 'ETH-USD', 'SOL-USD'];

/** Writes an example adapted to running services into a file. Returns the path. */
async function write(services: RunningServices, page: string, heading: string, language: string, file: string) {
  const path = join(await temporaryFolder(), file);
  await writeFile(path, adapt(examples(page, heading, language)[0], services));
  return path;
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

/** Runs a client until it ends, and compares its error output. */
async function expectStop(command: string, reason: string): Promise<void> {
  const client = watch(paste(command));
  expect(await client.exited).to.include({ code: 1 });
  expect(client.errors().trim()).to.equal(reason);
}

describe('the clients of the guide', () => {
  const running = onceForSuite(startServices);

  it('stream in Node, and stop without a valid key with a line that says why', async () => {
    const path = await write(running(), CLIENT, 'Node', 'js', 'prices.mjs');
    const [download] = examples(CLIENT, 'Node').map((example) => adapt(example, running()));
    const command = `cd ${dirname(path)}; ${download} exec ${process.execPath} prices.mjs`;
    await expectPrices(watch(paste(command, { API_KEY: running().apiKey })));
    const client = watch(paste(command, { API_KEY: 'none' }));
    expect(await client.exited).to.include({ code: 1 });
    expect(client.errors()).to.include('stopped invalid API key\n').and.include('ServiceError: invalid API key');
  });

  describeWith(lackingPython, 'in Python', () => {
    const pythonProgram = async (services: RunningServices) =>
      `exec ${python} ${await write(services, OTHERS, 'Python', 'python', 'client.py')}`;

    it('stream, and stop without a valid key with a line that says why', async () => {
      const command = await pythonProgram(running());
      await expectPrices(watch(paste(command, { API_KEY: running().apiKey })));
      await expectStop(`unset API_KEY; ${command}`, 'stopped: 400 {"error":"api_key required"}');
      await expectStop(`export API_KEY=none; ${command}`, 'stopped: 401 {"error":"invalid API key"}');
    });

    it('come back after a restart of the server', async () => {
      const DATA_DIR = await temporaryFolder();
      const before = await startServices({ env: { DATA_DIR } });
      const client = watch(paste(await pythonProgram(before), { API_KEY: before.apiKey }));
      const nextPrices = () => once(client.child.stdout as NodeJS.ReadableStream, 'data');
      await nextPrices();
      await before.end();
      await startServices({ env: { DATA_DIR, TICKER_PORT: new URL(before.ticker).port } });
      await nextPrices();
      expect(client.errors()).to.match(/^reconnecting: 1001 server is shutting down\n/);
    });
  });

  it('end after exactly those close codes after which reconnecting does not help', () => {
    // Each reconnect fetches a new token, so 4001 and 4003 need not end a client.
    const final = Object.values(closeCodes).filter(({ code, reconnect }) => !reconnect && ![4001, 4003].includes(code));
    const codes = final.map(({ code }) => code).toSorted();
    const [, list = ''] = /\(([\d, ]{20,})\)/.exec(section(OTHERS, 'Python')) ?? [];
    expect(list.split(', ').map(Number)).to.deep.equal(codes);
  });

  it('stop in the shell without a valid key with a line that says why', async () => {
    const example = adapt(examples(OTHERS, 'The shell')[0], running());
    expect((await outputOf(example, { API_KEY: 'none' })).trim()).to.equal('no token: {"error":"invalid API key"}');
  });

  it('get the key of the demo user, also if the example is repeated', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    const [example = ''] = examples(CLIENT, 'Before you start');
    expect(await outputOf(`${example}${example}echo $API_KEY`, { DATA_DIR })).to.equal(`${services.apiKey}\n`);
  });

  it('submit a task twice, which makes one task, and wait for its row', async () => {
    const [submitting, waiting] = examples(OTHERS, 'Tasks').map((example) => adapt(example, running()));
    const [first, second] = (await outputOf(submitting)).trim().split('\n');
    expect(JSON.parse(first ?? '')).to.deep.include({ status: 'queued' });
    expect(second).to.equal(first);
    expect(JSON.parse(await outputOf(waiting))).to.include({ status: 'completed', result: '{"output":"HELLO"}' });
  });

  it('follow the events of tasks', async () => {
    const client = watch(paste(`exec ${adapt(examples(OTHERS, 'Tasks')[2], running())}`));
    const said = async (text: string) => {
      while (!client.output().includes(text)) await once(client.child.stdout as NodeJS.ReadableStream, 'data');
    };
    await said('id: ');
    await post(`${running().tasks}/tasks`, { action: 'sum' });
    await said('event: completed\n');
    expect(client.output()).to.match(/event: accepted\n[\s\S]*event: started\n/);
  });
});
