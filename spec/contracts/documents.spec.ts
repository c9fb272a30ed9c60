import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { contractDocuments } from '../../main/contracts/documents.ts';
import { defaultSymbols } from '../../workers/symbols.ts';
import { temporaryFolder } from '../support/cleanup.ts';

describe('the contract documents', () => {
  it('are created once, for the symbols and actions of the process', async () => {
    const actions = new Map([['mail', { schema: { required: ['to'] } }]]);
    const symbols = [{ symbol: 'SOL-USD', price: 1, decimals: 2 }];
    const documents = contractDocuments({ rules: { actions, rejectUnknown: true }, symbols });
    const [first, second] = await Promise.all([documents(), documents()]);
    expect(second).to.equal(first);
    expect(await documents()).to.equal(first);
    const { openapi, components } = JSON.parse(first.openApi);
    expect(openapi).to.match(/^3\.1/);
    expect(components.schemas.Data1_mail).to.deep.equal({ required: ['to'] });
    expect(JSON.parse(first.asyncApi)).to.have.property('asyncapi', '3.0.0');
    expect(first.asyncApi).to.include('SOL-USD').and.not.include('BTC-USD');
  });

  it('are created again after a failure', async () => {
    const rules = { actions: new Map(), rejectUnknown: false };
    const symbols: unknown[] = [null];
    const documents = contractDocuments({ rules, symbols: symbols as never });
    const error = await documents().then(
      () => undefined,
      (reason) => reason,
    );
    expect(error).to.be.instanceOf(Error);
    symbols.splice(0, 1, ...defaultSymbols);
    expect(await documents()).to.have.keys('openApi', 'asyncApi');
  });

  it('load no module of theirs in the thread that asks for them', async () => {
    const program = `
      import { registerHooks } from 'node:module';
      const loaded = [];
      registerHooks({ load: (url, context, next) => { loaded.push(url); return next(url, context); } });
      const { contractDocuments } = await import(${JSON.stringify(new URL('../../main/contracts/documents.ts', import.meta.url))});
      const { openApi } = await contractDocuments({ rules: { actions: new Map(), rejectUnknown: false }, symbols: [] })();
      console.log(JSON.stringify({ length: openApi.length, loaded }));
    `;
    const file = join(await temporaryFolder(), 'program.mjs');
    await writeFile(file, program);
    const { stdout } = await promisify(execFile)(process.execPath, [file]);
    const { length, loaded } = JSON.parse(stdout) as { length: number; loaded: string[] };
    expect(length).to.be.above(10_000);
    expect(loaded.filter((url) => /contracts|typebox/.test(url))).to.have.lengthOf(1);
  });
});
