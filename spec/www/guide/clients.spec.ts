import { expect } from 'chai';
import { closeCodes } from '../../../main/ticker/pid-registry.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { adapt, examples, outputOf, paste, projectWith, section } from '../../support/examples.ts';
import { post, type RunningServices, startServices, watch } from '../../support/program.ts';
import { lackingPython, python } from '../../support/python.ts';
import { describeWith } from '../../support/requirements.ts';
import { until } from '../../support/until.ts';
import { startTasksServer } from '../../tasks/http/tasks-server.ts';

const CLIENT = 'www/guide/clients.md';
const OTHERS = 'www/guide/other-clients.md';
const SYMBOLS = ['BTC-USD', 'ETH-USD', 'SOL-USD'];

/** Writes the first example of a heading, adapted to running services, into a file of a project. */
const write = (services: RunningServices, page: string, heading: string, language: string, file: string) =>
  projectWith({ [file]: adapt(examples(page, heading, language)[0], services) });

async function expectPrices(command: string, API_KEY: string): Promise<void> {
  const client = watch(paste(command, { API_KEY }));
  const lines = () => client.output().split('\n').slice(0, -1);
  await until(() => lines().length > 1);
  for (const line of lines())
    expect(JSON.parse(line).map(({ symbol }: { symbol: string }) => symbol)).to.have.members(SYMBOLS);
}

async function errorsOf(command: string, env: Record<string, string> = {}): Promise<string> {
  const client = watch(paste(command, env));
  expect(await client.exited).to.include({ code: 1 });
  return client.errors();
}

describe('the clients of the guide', () => {
  const running = onceForSuite(startServices);

  it('stream in Node, and stop without a valid key with a line that says why', async () => {
    const folder = await write(running(), CLIENT, 'Node', 'js', 'prices.mjs');
    const [download] = examples(CLIENT, 'Node').map((example) => adapt(example, running()));
    const command = `cd ${folder}; ${download} exec ${process.execPath} prices.mjs`;
    await expectPrices(command, running().apiKey);
    const errors = await errorsOf(command, { API_KEY: 'none' });
    expect(errors).to.include('stopped invalid API key\n').and.include('ServiceError: invalid API key');
  });

  describeWith(lackingPython, 'in Python', () => {
    const pythonProgram = async (services: RunningServices) =>
      `exec ${python} ${await write(services, OTHERS, 'Python', 'python', 'client.py')}/client.py`;

    it('stream, and stop without a valid key with a line that says why', async () => {
      const command = await pythonProgram(running());
      await expectPrices(command, running().apiKey);
      const errors = [await errorsOf(`unset API_KEY; ${command}`), await errorsOf(command, { API_KEY: 'none' })];
      expect(errors).to.deep.equal([
        'stopped: 400 {"error":"api_key required"}\n',
        'stopped: 401 {"error":"invalid API key"}\n',
      ]);
    });

    it('come back after a restart of the server', async () => {
      const before = await startServices();
      const client = watch(paste(await pythonProgram(before), { API_KEY: before.apiKey }));
      await until(() => client.output() !== '');
      await before.end();
      await until(() => client.errors() !== '');
      const printed = client.output();
      await startServices({ env: { ...before.env, TICKER_PORT: new URL(before.ticker).port } });
      await until(() => client.output() !== printed);
      expect(client.errors()).to.match(/^reconnecting: 1001 server is shutting down\n/);
    });
  });

  it('end after exactly those close codes after which reconnecting does not help', () => {
    // Each reconnect fetches a new token, so 4001 and 4003 need not end a client.
    const final = Object.values(closeCodes).filter(({ code, reconnect }) => !reconnect && ![4001, 4003].includes(code));
    const [, list = ''] = /\(([\d, ]{20,})\)/.exec(section(OTHERS, 'Python')) ?? [];
    expect(list.split(', ').map(Number)).to.deep.equal(final.map(({ code }) => code).toSorted());
  });

  it('stop in the shell without a valid key with a line that says why', async () => {
    const example = adapt(examples(OTHERS, 'The shell')[0], running());
    expect((await outputOf(example, { API_KEY: 'none' })).trim()).to.equal('no token: {"error":"invalid API key"}');
  });

  it('get the key of the demo user, also if the example is repeated', async () => {
    const { env, apiKey } = running();
    const [example = ''] = examples(CLIENT, 'Before you start');
    expect(await outputOf(`${example}${example}echo $API_KEY`, env)).to.equal(`${apiKey}\n`);
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
    await until(() => client.output().includes('id: '));
    await post(`${running().tasks}/tasks`, { action: 'sum' });
    await until(() => client.output().includes('event: completed\n'));
    expect(client.output()).to.match(/event: accepted\n[\s\S]*event: started\n/);
  });
});

describe('data with numbers and text', () => {
  it('is stored as the table of the guide says', async () => {
    const rows = [...section(OTHERS, 'Tasks').matchAll(/^\| `(\{.*?\})` \| `(\{.*?\})` \|/gm)];
    expect(rows).to.have.length.above(8);
    const { submit, queued } = await startTasksServer();
    for (const [, data = ''] of rows)
      expect((await submit(`{"action": "any", "data": ${data}}`)).status, data).to.equal(202);
    const stored = (await queued()).map(({ body }) => /"data":(.*),"created_at"/.exec(body)?.[1]);
    expect(stored).to.deep.equal(rows.map(([, , data]) => data));
  });
});
