import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { checkHandlers } from '../../main/threads/module-checks.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';

const check = (handlers: string, timeLimitMs?: number) => checkHandlers({ handlers, memoryMb: 64 }, timeLimitMs);

/** Checks a module that cannot be used. Returns the reason after the fixed beginning of the message. */
async function reasonOf(file: string, timeLimitMs?: number): Promise<string> {
  const { message } = await check(file, timeLimitMs).then(
    () => new Error('the module was accepted'),
    (error) => error,
  );
  expect(message).to.not.include('\n');
  const beginning = `the handlers module ${file} cannot be used: `;
  expect(message.slice(0, beginning.length)).to.equal(beginning);
  return message.slice(beginning.length);
}

describe('the check of a handlers module', () => {
  it('returns its actions as plain data, by TypeScript and by JavaScript', async () => {
    const source = `export default {
      plain() {},
      full: { handler: () => 1, schema: { type: 'object', toJSON: undefined }, timeoutMs: 5, maxAttempts: 1, overlap: false },
      overlapping: { handler: () => 1, overlap: true },
      constructor: () => 2,
    }`;
    const expected = new Map([
      ['plain', {}],
      ['full', { schema: { type: 'object' }, timeoutMs: 5, maxAttempts: 1, overlap: false }],
      ['overlapping', {}],
      ['constructor', {}],
    ]);
    expect(await check(await writeHandlers(source))).to.deep.equal(expected);
    expect(await check(await writeHandlers(source, 'handlers.mjs'))).to.deep.equal(expected);
    const typed = `export default { a: (data: { b: string }): string => data.b };`;
    expect(await check(await writeHandlers(typed))).to.deep.equal(new Map([['a', {}]]));
  });

  it('takes no message of the module for its report', async () => {
    const messages =
      "[null, 1, 'text', {}, { failure: 'foreign' }, { manifest: new Map() }, { ...workerData, failure: 'foreign' }]";
    const imports = "import { parentPort, workerData } from 'node:worker_threads';";
    const source = `${imports} for (const message of ${messages}) parentPort.postMessage(message);`;
    expect(await check(await writeHandlers(`${source} export default { a() {} };`))).to.deep.equal(
      new Map([['a', {}]]),
    );
    expect(await reasonOf(await writeHandlers(`${source} export default 5;`))).to.match(/^its default export must be/);
  });

  it('has nothing to check without a module', async () => {
    expect(await checkHandlers({ handlers: undefined, memoryMb: 64 })).to.deep.equal(new Map());
  });

  it('finds a path relative to the working directory, and a package that is installed there', async () => {
    const folder = await temporaryFolder();
    const name = '@own/handlers';
    await mkdir(join(folder, 'node_modules', name), { recursive: true });
    const exports = { '.': { import: './index.mjs' } };
    await writeFile(join(folder, 'node_modules', name, 'package.json'), JSON.stringify({ name, exports }));
    await writeFile(join(folder, 'node_modules', name, 'index.mjs'), 'export default { packed() {} }');
    await writeFile(join(folder, 'own.mjs'), 'export default { own() {} }');
    const before = process.cwd();
    process.chdir(folder);
    afterTest(() => process.chdir(before));
    expect([...(await check('own.mjs')).keys()]).to.deep.equal(['own']);
    expect([...(await check('./own.mjs')).keys()]).to.deep.equal(['own']);
    expect([...(await check(name)).keys()]).to.deep.equal(['packed']);
    expect(await reasonOf('not-installed')).to.match(/^Cannot find package 'not-installed'/);
    expect(await reasonOf('./not-there.ts')).to.match(/^Cannot find module/);
  });

  const noHandler = 'action "a": its handler must be a function';
  const bad: Record<string, RegExp | string> = {
    'export default 5': 'its default export must be an object that maps actions to handlers',
    'export const a = 1': 'its default export must be an object that maps actions to handlers',
    'export default () => {}': 'its default export must be an object that maps actions to handlers',
    'export default []': 'its default export must be an object that maps actions to handlers',
    'export default { a: 5 }': noHandler,
    'export default { a: null }': noHandler,
    'export default { a: {} }': noHandler,
    'export default { a: { handler() {}, timeoutMS: 5 } }': 'action "a": unknown setting "timeoutMS"',
    'export default { a: { handler() {}, schema: true } }': 'action "a": its schema must be an object',
    'export default { a: { handler() {}, timeoutMs: 0 } }':
      'action "a": timeoutMs must be a whole number from 1 to 86400000',
    'export default { a: { handler() {}, maxAttempts: 1.5 } }':
      'action "a": maxAttempts must be a whole number from 1 to 1000',
    'export default { a: { handler() {}, overlap: 1 } }': 'action "a": overlap must be true or false',
    "export default { a: { handler() {}, schema: { type: 'strin' } } }":
      /^action "a": its schema does not compile: \/type must /,
    "export default { a: { handler() {}, schema: { pattern: '(' } } }": /^action "a": its schema does not compile: .+/,
    "export default { a: { handler() {}, schema: { $ref: '#/$defs/b' } } }":
      'action "a": its schema does not compile: $ref "#/$defs/b" leads nowhere',
    "export default { a: { handler() {}, schema: { $schema: 'urn:other' } } }":
      'action "a": its schema does not compile: unknown $schema "urn:other"',
    'const schema = {}; schema.not = schema; export default { a: { handler() {}, schema } }':
      /^action "a": its schema does not compile: Converting circular structure/,
    'throw new Error("two\\nlines")': 'two lines',
    'throw null': 'null',
    'export default {': /./,
    'process.exit(0)': 'it ended its thread with exit code 0',
    'await new Promise(() => {})': 'it never finishes loading',
    'setTimeout(() => { throw null; }); await new Promise((r) => setTimeout(r, 1e6))': 'its thread failed: undefined',
    'export default { get a() { throw new Error("no\\nlines") } }': 'no lines',
    'export default { get a() { throw null } }': 'null',
    'export default { a: { handler() {}, schema: { toJSON() { throw null } } } }':
      'action "a": its schema does not compile: null',
  };
  for (const [source, reason] of Object.entries(bad)) {
    it(`refuses in one line: ${source}`, async () => {
      const found = await reasonOf(await writeHandlers(source));
      if (typeof reason === 'string') expect(found).to.equal(reason);
      else expect(found).to.match(reason);
    });
  }

  it('says how to name a module of a CommonJS package, which is what "npm init" creates', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'package.json'), '{"type": "commonjs"}');
    const remedy = ': set "type": "module" in package.json, or end the file name in .mts or .mjs';
    const modules = {
      'Cannot use import statement outside a module': "import fs from 'node:fs'; export default { a: () => fs };",
      "Unexpected token 'export'": 'export default { a() {} };',
    };
    for (const [reason, source] of Object.entries(modules)) {
      const file = join(folder, 'handlers.ts');
      await writeFile(file, source);
      expect(await reasonOf(file)).to.equal(reason + remedy);
    }
  });

  it('refuses a module that does not load in time, or blocks', async () => {
    for (const source of ['await new Promise((resolve) => setTimeout(resolve, 1e6))', 'for (;;);']) {
      expect(await reasonOf(await writeHandlers(source), 500)).to.equal('it did not load within 0.5 s');
    }
  });
});
