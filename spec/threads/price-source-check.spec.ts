import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { checkPriceSource } from '../../main/threads/module-checks.ts';
import { defaultSymbols } from '../../workers/shared/symbols.ts';
import { temporaryFolder } from '../support/cleanup.ts';

async function file(name: string, text: string): Promise<string> {
  const path = join(await temporaryFolder(), name);
  await writeFile(path, text);
  return path;
}

/** Checks a source. Returns the reason why it cannot be used, or undefined. */
async function reasonAgainst(source: string, timeLimitMs?: number): Promise<string | undefined> {
  try {
    await checkPriceSource({ priceSource: source, symbols: defaultSymbols }, timeLimitMs);
    return undefined;
  } catch (error) {
    const { message } = error as Error;
    const beginning = `the price source ${source} cannot be used: `;
    expect(message.slice(0, beginning.length)).to.equal(beginning);
    expect(message).to.not.include('\n');
    return message.slice(beginning.length);
  }
}

describe('the check of a price source', () => {
  it('starts no thread without a source', async () => {
    await checkPriceSource({ priceSource: undefined, symbols: defaultSymbols });
  });

  it('accepts a module with the function prices, in TypeScript and in JavaScript, and calls nothing', async () => {
    const source = 'export default { start() { process.exit(); }, prices() { process.exit(); } };';
    for (const name of ['source.ts', 'source.mjs'])
      expect(await reasonAgainst(await file(name, source))).to.equal(undefined);
    const typed = 'class Own { prices(due: number): number[] { return [due]; } }\nexport default new Own();';
    expect(await reasonAgainst(await file('typed.ts', typed))).to.equal(undefined);
  });

  it('takes no message of the module for its report', async () => {
    const imports = "import { parentPort, workerData } from 'node:worker_threads';";
    const messages = "[null, {}, { failure: 'foreign' }, { isUsable: true }, { ...workerData, failure: 'foreign' }]";
    const source = `${imports} for (const message of ${messages}) parentPort.postMessage(message);`;
    const usable = await file('usable.mjs', `${source} export default { prices() {} };`);
    expect(await reasonAgainst(usable)).to.equal(undefined);
    const unusable = await file('unusable.mjs', `${source} export default {};`);
    expect(await reasonAgainst(unusable)).to.equal('its default export has no function prices');
  });

  it('accepts a recording that has all symbols', async () => {
    const recording = await file('a.csv', 'SOL-USD,ETH-USD,BTC-USD\n1,2,3\n');
    expect(await reasonAgainst(recording)).to.equal(undefined);
  });

  it('discards what a module writes, and ends what it leaves running', async () => {
    const text = 'setInterval(() => console.log("noise"), 1); export default { prices() {} };';
    expect(await reasonAgainst(await file('noisy.mjs', text))).to.equal(undefined);
  });

  for (const [what, text, reason] of [
    ['has no default export', 'export const prices = () => [];', /^its default export has no function prices$/],
    ['exports null', 'export default null;', /^its default export has no function prices$/],
    ['has no prices', 'export default { start() {} };', /^its default export has no function prices$/],
    [
      'has a start that is no function',
      'export default { start: 1, prices() {} };',
      /^start of its default export is /,
    ],
    ['has a getter that throws', 'export default { get prices() { throw new Error("no"); } };', /^no$/],
    ['is no JavaScript', 'export default {', /Unexpected/],
    ['throws', 'throw new Error("no\\nkey")', /^no key$/],
    ['throws null', 'throw null', /^null$/],
    ['exits', 'process.exit(7)', /^it ended its thread with exit code 7$/],
    ['never finishes loading', 'await new Promise(() => {}); export default {};', /^it never finishes loading$/],
    ['imports what is not there', 'import "./missing.js"; export default {};', /missing\.js/],
  ] as const) {
    it(`refuses a module that ${what}`, async () => {
      expect(await reasonAgainst(await file('source.mjs', text))).to.match(reason);
    });
  }

  it('refuses a module that blocks, after the time limit', async () => {
    const blocks = await file('source.mjs', 'for (;;);');
    expect(await reasonAgainst(blocks, 200)).to.equal('it did not load within 0.2 s');
  });

  it('refuses a file that does not exist, and a package that is not installed', async () => {
    const folder = await temporaryFolder();
    expect(await reasonAgainst(join(folder, 'none.ts'))).to.match(/none\.ts/);
    expect(await reasonAgainst(join(folder, 'none.csv'))).to.match(/no such file.*none\.csv/);
    expect(await reasonAgainst('not-an-installed-package')).to.match(/not-an-installed-package/);
    await mkdir(join(folder, 'folder.csv'));
    expect(await reasonAgainst(join(folder, 'folder.csv'))).to.be.a('string');
  });

  it('refuses a recording with a bad line, and names it', async () => {
    const recording = await file('a.csv', 'SOL-USD,ETH-USD,BTC-USD\n1,2,3\n1,2,x\n');
    expect(await reasonAgainst(recording)).to.match(/^line 3: BTC-USD must be a positive number/);
  });
});
