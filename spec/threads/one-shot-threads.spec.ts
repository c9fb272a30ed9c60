import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import { checkHandlers, checkPriceSource, runMigration } from '../../main/threads/one-shot-threads.ts';
import { defaultSymbols as symbols } from '../../workers/shared/symbols.ts';
import { errorOf } from '../store/stage.ts';
import { afterTest, temporaryFile, temporaryFolder } from '../support/cleanup.ts';
import { serve } from '../support/server.ts';
import { watchThreads } from '../support/threads.ts';

const SETTINGS = { memoryMb: 64, unknownActions: 'process', callbackHosts: ['example.com'] } as const;
const WAIT = 'await new Promise((resolve) => setTimeout(resolve, 1e6))';

const handlersOf = (handlers: string, timeLimitMs?: number) => checkHandlers({ ...SETTINGS, handlers }, timeLimitMs);
const checkSource = (priceSource: string, timeLimitMs?: number) =>
  checkPriceSource({ priceSource, symbols }, timeLimitMs);

type Check = (module: string, timeLimitMs?: number) => Promise<unknown>;

/** Returns the reason why a module is refused, which follows its name in one line, or undefined. */
async function refusal(check: Check, module: string, timeLimitMs?: number): Promise<string | undefined> {
  const error = await check(module, timeLimitMs).catch((failure) => failure);
  if (!(error instanceof Error)) return undefined;
  const { start, reason } = /^(?<start>.* cannot be used: )(?<reason>.*)$/.exec(error.message)?.groups ?? {};
  const kind = check === checkSource ? 'price source' : 'handlers module';
  expect(start).to.equal(`the ${kind} ${module} cannot be used: `);
  return reason;
}

const kinds: [kind: string, check: Check, usable: string, reason: string][] = [
  ['a handlers module', handlersOf, '{ a() {} }', 'its default export must be an object that maps actions to handlers'],
  ['a price source', checkSource, '{ prices() {} }', 'its default export has no function prices'],
];

for (const [kind, check, usable, noExport] of kinds) {
  describe(`the check of ${kind}`, () => {
    it('discards what a module writes and posts, ends what it leaves running, and leaves no timer', async () => {
      const posts = "for (const each of [null, 1, {}, { failure: 'own' }]) parentPort.postMessage(each);";
      const source = `import { parentPort } from 'node:worker_threads'; ${posts}
        setInterval(() => console.log('noise'), 1); export default ${usable};`;
      const module = await temporaryFile('noisy.mjs', source);
      const timers = () => process.getActiveResourcesInfo().filter((each) => each === 'Timeout').length;
      const before = timers();
      expect(await refusal(check, module)).to.equal(undefined);
      expect(timers()).to.be.at.most(before);
    });

    const getter = (body: string) => `export default { get ${usable.slice(2, -7)}() { ${body} } }`;
    for (const [what, reason, ...sources] of [
      ['has another default export', noExport, 'export const a = 1', 'export default null', 'export default []'],
      ['throws', /^two lines, at \/.*\/module\.mts:1:7: throw new Error/, 'throw new Error("two\\nlines")'],
      ['throws when it is read', /^two lines\b/, getter('throw new Error("two\\nlines")')],
      ['is no TypeScript', /^Expression expected, at \/.*\/module\.mts:2:11: const b = ;$/, '\nconst b = ;'],
      ['throws null', 'null', 'throw null', getter('throw null')],
      ['exits', 'it ended its thread with exit code 7', 'process.exit(7)'],
      ['never finishes loading', 'it never finishes loading', 'await new Promise(() => {}); export default {};'],
      ['throws null in a timer', 'its thread failed: undefined', `setTimeout(() => { throw null; }); ${WAIT}`],
    ] as [string, string | RegExp, ...string[]][]) {
      it(`refuses in one line a module that ${what}`, async () => {
        for (const source of sources) {
          const found = await refusal(check, await temporaryFile('module.mts', source));
          if (typeof reason === 'string') expect(found, source).to.equal(reason);
          else expect(found, source).to.match(reason);
        }
      });
    }

    it('names the causes of an error with their places', async () => {
      const [first, second] = ['const cause = new Error("no server");', 'throw new Error("no settings", { cause });'];
      const path = await temporaryFile('a b.mjs', `${first}\n${second}`);
      expect(await refusal(check, path)).to.equal(
        `no settings, at ${path}:2:7: ${second}; caused by no server, at ${path}:1:15: ${first}`,
      );
      const own = await temporaryFile('own.mjs', 'const own = new Error("own"); own.cause = own; throw own;');
      expect((await refusal(check, own))?.match(/caused by own, at/g)).to.have.length(3);
    });

    it('refuses a module that does not load in time, or blocks', async () => {
      for (const source of [WAIT, 'for (;;);']) {
        const module = await temporaryFile('slow.mjs', source);
        expect(await refusal(check, module, 200)).to.equal('it did not load within 0.2 s');
      }
    });

    it('finds a path relative to the working directory, and a package that is installed there', async () => {
      const folder = await temporaryFolder();
      const installed = join(folder, 'node_modules/@own/module');
      await mkdir(installed, { recursive: true });
      await writeFile(join(installed, 'package.json'), '{"exports":{".":{"import":"./index.mjs"}}}');
      for (const path of [join(installed, 'index.mjs'), join(folder, 'own.mjs')])
        await writeFile(path, `export default ${usable};`);
      const before = process.cwd();
      process.chdir(folder);
      afterTest(() => process.chdir(before));
      for (const [module, expected] of [
        ...['own.mjs', './own.mjs', '@own/module'].map((each) => [each, /^usable$/] as const),
        ['not-installed', /^Cannot find package 'not-installed'/],
        ['./not-there.ts', /^Cannot find module '\S+\/not-there\.ts'$/],
      ] as const)
        expect((await refusal(check, module)) ?? 'usable').to.match(expected);
    });
  });
}

describe('the check of a handlers module', () => {
  it('returns its actions as plain data, by TypeScript and by JavaScript', async () => {
    const source = `export default {
      plain() {},
      full: {
        handler: () => 1, schema: { type: 'object', toJSON: undefined }, timeoutMs: 86400000, maxAttempts: 1000, overlap: false,
        backoff: { firstMs: undefined, factor: 10, maxMs: 86400000 },
        limits: { concurrency: 100000, rate: { count: 10000, seconds: 86400 }, perKey: { rate: { count: 1, seconds: 0.0011 } } },
      },
      overlapping: { handler: () => 1, overlap: true, backoff: { factor: 1 }, limits: { rate: { count: 1, seconds: 0.001 } } },
      constructor: () => 2,
    }`;
    const text = '() => 1';
    const backoff = { factor: 10, maxMs: 86_400_000 };
    const rate = { count: 10_000, ms: 86_400_000 };
    const limits = { concurrency: 100_000, rate, perKey: { rate: { count: 1, ms: 2 } } };
    const settings = { timeoutMs: 86_400_000, maxAttempts: 1000, overlap: false, backoff, limits };
    const full = { text, schema: { type: 'object' }, ...settings };
    const overlapping = { text, backoff: { factor: 1 }, limits: { rate: { count: 1, ms: 1 } } };
    const others = { plain: { text: 'plain() {}' }, overlapping, constructor: { text: '() => 2' } };
    const expected = new Map(Object.entries({ full, ...others }));
    for (const name of ['handlers.ts', 'handlers.mjs'])
      expect((await handlersOf(await temporaryFile(name, source))).actions).to.deep.equal(expected);
    const typed = 'export default { a: (data: { b: string }): string => data.b };';
    expect([...(await handlersOf(await temporaryFile('typed.ts', typed))).actions.keys()]).to.deep.equal(['a']);
  });

  const cyclic = '{ handler() {}, get schema() { const own = {}; own.not = own; return own; } }';
  const settings = [
    ['its schema does not compile: /type must ', "{ handler() {}, schema: { type: 'strin' } }"],
    ['its schema does not compile: ', "{ handler() {}, schema: { pattern: '(' } }"],
    ['its schema does not compile: $ref "#/$defs/b" leads nowhere', "{ handler() {}, schema: { $ref: '#/$defs/b' } }"],
    ['its schema does not compile: unknown $schema "urn:other"', "{ handler() {}, schema: { $schema: 'urn:other' } }"],
    ['its schema does not compile: Converting circular', cyclic],
    ['its schema does not compile: null', '{ handler() {}, schema: { toJSON() { throw null } } }'],
    ...['5', 'null', '{}'].map((each) => ['its handler must be a function', each] as const),
    ['backoff: unknown setting "first": did you mean firstMs?', '{ handler() {}, backoff: { first: 5 } }'],
    ['backoff.maxMs must be a whole number from 1 to 86400000', '{ handler() {}, backoff: { maxMs: 86400001 } }'],
    ['backoff.factor must be a number from 1 to 10', '{ handler() {}, backoff: { factor: 0.5 } }'],
    ['backoff.factor must be a number from 1 to 10', '{ handler() {}, backoff: { factor: 10.5 } }'],
    ['backoff.factor must be a number from 1 to 10', "{ handler() {}, backoff: { factor: '2' } }"],
    ['backoff must be an object', '{ handler() {}, backoff: 5 }'],
    ['unknown setting "timeoutMS": did you mean timeoutMs?', '{ handler() {}, timeoutMS: 5 }'],
    ['its schema must be an object', '{ handler() {}, schema: true }'],
    ['timeoutMs must be a whole number from 1 to 86400000', '{ handler() {}, timeoutMs: 86400001 }'],
    ['maxAttempts must be a whole number from 1 to 1000', '{ handler() {}, maxAttempts: 1001 }'],
    ['limits.perKey needs concurrency or rate', '{ handler() {}, limits: { perKey: {} } }'],
    ['overlap must be true or false', '{ handler() {}, overlap: 1 }'],
    ['callback the host a.b is not in CALLBACK_HOSTS', '{ handler() {}, callback: "https://a.b" }'],
  ] as const;
  const planned = (schedules: string) =>
    `export default { a: { handler() {}, schema: { required: ['b'] } } }; export const schedules = ${schedules};`;
  const name = 'a'.repeat(201);
  const withCallback = `export default { ${name}: { handler() {}, callback: 'https://example.com' } };`;
  const modules = [
    ...settings.map(([reason, each]) => [`action "a": ${reason}`, `export default { a: ${each} }`] as const),
    ['the action callback is built in while CALLBACK_HOSTS is set: rename it', 'export default { callback() {} };'],
    ['its export "schedules" must be an object that maps names to schedules', planned('[]')],
    ['Do not know how to serialize a BigInt', planned('{ a: 1n }')],
    [
      'its thread failed: Worker terminated due to reaching memory',
      'for (const a = []; ; ) a.push(Array(1e4).fill({}))',
    ],
    ['schedule "a": invalid schedule: cron: has a wrong minute: 60', planned("{ a: { cron: '60 * * * *' } }")],
    ['schedule "a": invalid schedule: catchUp: is unknown', planned("{ a: { cron: '* * * * *', catchUp: 'all' } }")],
    ['schedule "a": invalid data: /b: must be present', planned("{ a: { cron: '* * * * *', action: 'a' } }")],
    [`action "${name}": callback needs an action of at most 200 characters`, withCallback],
  ] as const;
  it('refuses invalid actions and schedules, and names the reason', async () => {
    for (const [reason, source] of modules) {
      const found = await refusal(handlersOf, await temporaryFile('module.mjs', source));
      expect(found?.slice(0, reason.length), source).to.equal(reason);
    }
  });

  it('names the place of a missing import, and of a syntax error in an imported file', async () => {
    for (const missing of ['./missing.ts', 'not-installed']) {
      const code = `import other from '${missing}';`;
      const path = await temporaryFile('imports.mts', `const first = 1;\n${code}\nexport default { first, other };`);
      expect(await refusal(handlersOf, path))
        .to.match(/^Cannot find .* imported from /)
        .and.include(`, at ${path}:2:19: ${code}`);
    }
    const module = await temporaryFile('handlers.mjs', `import './lib.mjs';\nexport default { a: () => 1 };`);
    await writeFile(join(dirname(module), 'lib.mjs'), `const a = 1;\nconst b = {;\n`);
    expect(await refusal(handlersOf, module)).to.match(/^Unexpected token ';', at \S*lib\.mjs:2:12: const b = {;$/);
  });

  it('returns normalised callbacks, and its schedules with their defaults', async () => {
    const name = 'a'.repeat(200);
    const source = `export default { ${name}: { handler() {}, callback: 'https://EXAMPLE.com' } };
      export const schedules = { nightly: { cron: '0 3 * * *', action: '${name}', data: { b: 1 }, paused: undefined } };`;
    const { actions, schedules } = await handlersOf(await temporaryFile('module.ts', source));
    expect(actions.get(name)).to.include({ callback: 'https://example.com/' });
    const settings = { time_zone: 'UTC', priority: 3, catch_up: 'one', overlap: 'allow', paused: false };
    const nightly = { cron: '0 3 * * *', action: name, data: { b: 1 }, ...settings };
    expect([...schedules]).to.deep.equal([['nightly', nightly]]);
  });

  it('refuses a schedule with an unknown action if TASK_UNKNOWN_ACTIONS is reject', async () => {
    const source = "export default { a() {} }; export const schedules = { s: { cron: '* * * * *', action: 'b' } };";
    const module = await temporaryFile('module.mjs', source);
    expect((await handlersOf(module)).schedules.size).to.equal(1);
    const strict = (handlers: string) => checkHandlers({ ...SETTINGS, handlers, unknownActions: 'reject' });
    expect(await refusal(strict, module)).to.equal('schedule "s": unknown action');
  });

  it('says how to name a module of a CommonJS package, which is what "npm init" creates', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'package.json'), '{"type": "commonjs"}');
    const remedy = ': set "type": "module" in package.json, or end the file name in .mts or .mjs';
    for (const [reason, source] of Object.entries({
      'Cannot use import statement outside a module': "import fs from 'node:fs'; export default { a: () => fs };",
      "Unexpected token 'export'": 'export default { a() {} };',
    })) {
      const module = join(folder, 'handlers.ts');
      await writeFile(module, source);
      expect(await refusal(handlersOf, module)).to.equal(reason + remedy);
    }
  });
});

describe('the check of a price source', () => {
  it('accepts a module with the function prices, and calls nothing', async () => {
    const exit = '{ start() { process.exit(); }, prices() { process.exit(); } }';
    const typed = 'class Own { prices(due: number): number[] { return [due]; } }\nexport default new Own();';
    for (const source of [`export default ${exit};`, typed])
      expect(await refusal(checkSource, await temporaryFile('source.ts', source))).to.equal(undefined);
    const wrong = await temporaryFile('wrong.mjs', 'export default { start: 1, prices() {} };');
    expect(await refusal(checkSource, wrong)).to.match(/^start of its default export is /);
  });

  it('accepts a recording with all symbols, and names the bad line of another one, and one that is missing', async () => {
    const header = 'SOL-USD,ETH-USD,BTC-USD\n1,2,3\n';
    expect(await refusal(checkSource, await temporaryFile('a.CSV', header))).to.equal(undefined);
    const bad = await temporaryFile('a.csv', `${header}1,2,x\n`);
    expect(await refusal(checkSource, bad)).to.match(/^line 3: BTC-USD must be a positive number/);
    const folder = await temporaryFolder();
    expect(await refusal(checkSource, join(folder, 'none.csv'))).to.match(/no such file.*none\.csv/);
    await mkdir(join(folder, 'folder.csv'));
    expect(await refusal(checkSource, join(folder, 'folder.csv'))).to.be.a('string');
  });
});

describe('the migration thread', () => {
  it('has ended when it fails, because the caller then unlocks the folder', async () => {
    const watched = watchThreads();
    const error = await errorOf(() => runMigration({ dataDir: '/dev/null' }));
    expect(error.message).to.include('cannot migrate /dev/null/auth.db');
    expect([watched.threads.length, watched.ended]).to.deep.equal([1, 1]);
  });

  it('fails if it is ended before it is done', async () => {
    const { threads } = watchThreads();
    const { server, port } = (await serve(() => {})).listener;
    server.once('connection', () => threads[0]?.terminate());
    const error = await errorOf(() => runMigration({ databaseUrl: `postgres://127.0.0.1:${port}/none` }));
    expect(error.message).to.equal('the migration ended with exit code 1');
  });
});
