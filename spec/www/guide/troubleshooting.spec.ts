import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { section } from '../../support/examples.ts';
import { startNatsServer } from '../../support/nats-server.ts';
import { startProgram, startServices } from '../../support/program.ts';
import { describeWith, lackingProgram } from '../../support/requirements.ts';

const FILE = 'www/guide/troubleshooting.md';

/** Returns the quoted messages in the first column of a table as patterns. `…` stands for any text. */
function symptoms(heading: string): RegExp[] {
  const cells = [...section(FILE, heading).matchAll(/^\| (.*?) \|/gm)].map(([, cell = '']) => cell);
  const quotes = cells.flatMap((cell) =>
    [...cell.matchAll(/`([^`]*… ?[^`]*|[^`]{30,})`/g)].map(([, quote = '']) => quote),
  );
  const escaped = (quote: string) => quote.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll('…', '.*');
  return quotes.map((quote) => new RegExp(`^${escaped(quote)}$`));
}

/** Starts the program with settings that fail. Returns the line that says why. */
async function failure(env: Record<string, string>, within: string[] = []): Promise<string> {
  const program = await startProgram({ env, within });
  expect(await program.exited).to.include({ code: 1 });
  return (program.lines.at(-1)?.msg ?? program.errors()).trim();
}

const taken = async () => {
  const server = createServer().listen(0, '127.0.0.1');
  afterTest(() => server.close());
  await new Promise((resolve) => server.once('listening', resolve));
  return String((server.address() as { port: number }).port);
};

/** Settings that give two listeners the same free port. */
async function samePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const port = String((server.address() as { port: number }).port);
  await new Promise((resolve) => server.close(resolve));
  return { TASKS_PORT: port, TICKER_PORT: port };
}

const SERVERS = { DATABASE_URL: 'postgres://127.0.0.1:1/none', TOKEN_KEY: 'a key that has more than 32 bytes' };

const starts: [string, () => Promise<string>][] = [
  ['a taken port', async () => failure({ TASKS_PORT: await taken() })],
  ['two taken ports', async () => failure({ TASKS_PORT: await taken(), TICKER_PORT: await taken() })],
  ['an address of another machine', () => failure({ HOST: '192.0.2.1' })],
  ['a data folder below /proc', () => failure({ DATA_DIR: '/proc/data' })],
  ['a data folder that is a file', () => failure({ DATA_DIR: 'package.json' })],
  ['the same port twice', async () => failure(await samePort())],
  ['an unknown host', () => failure({ HOST: 'nowhere.invalid' })],
  ['a wrong setting', () => failure({ ADMIN_PORT: 'none' })],
  ['a missing handlers module', () => failure({ TASK_HANDLERS: './none.ts' })],
  ['a missing recording', () => failure({ PRICE_SOURCE: 'none.csv' })],
  ['too few open files', () => failure({}, ['sh', '-c', 'ulimit -n 100; exec "$0" "$@"'])],
  ['too large a queue', () => failure({ QUEUE_MAX_BYTES: '80000000000' })],
  [
    'a damaged file',
    async () => {
      const DATA_DIR = await temporaryFolder();
      await writeFile(join(DATA_DIR, 'auth.db'), 'this is text, and not a database'.repeat(10));
      return failure({ DATA_DIR });
    },
  ],
  [
    'a data folder in use',
    async () => {
      const DATA_DIR = await temporaryFolder();
      await startServices({ env: { DATA_DIR } });
      return failure({ DATA_DIR });
    },
  ],
];

const nodes: [string, () => Promise<string>][] = [
  ['NATS_URL without DATABASE_URL', () => failure({ NATS_URL: 'nats://127.0.0.1:1' })],
  ['the queue driver of a server that is not set', () => failure({ QUEUE_DRIVER: 'nats' })],
  ['a missing NATS server', () => failure({ ...SERVERS, NATS_URL: 'nats://127.0.0.1:1' })],
];

/** Failures of starts with a NATS server. */
const natsStarts: [string, () => Promise<string>][] = [
  ['a missing PostgreSQL server', async () => failure({ ...SERVERS, NATS_URL: (await startNatsServer()).url })],
  [
    'too few NATS servers',
    async () => failure({ ...SERVERS, NATS_REPLICAS: '3', NATS_URL: (await startNatsServer()).url }),
  ],
  [
    'a NATS server without JetStream',
    async () => failure({ ...SERVERS, NATS_URL: (await startNatsServer({ jetStream: false })).url }),
  ],
];

function defineAll(heading: string, cases: [string, () => Promise<string>][]) {
  for (const [what, provoke] of cases)
    it(`quotes the message for ${what}`, async () => {
      const message = await provoke();
      const patterns = symptoms(heading);
      expect(
        patterns.some((pattern) => pattern.test(message)),
        message,
      ).to.equal(true);
    });
}

describe('the guide to troubleshooting', () => {
  defineAll('Start', starts);
  defineAll('Several nodes', nodes);
});

describeWith(lackingProgram('nats-server'), 'the guide to troubleshooting NATS', () => {
  defineAll('Several nodes', natsStarts);
});
