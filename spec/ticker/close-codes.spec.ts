import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { type CloseCode, closeCodes } from '../../main/ticker/close-codes.ts';
import { FINAL_CODES } from '../../www/ticker/stream.ts';

const codes: CloseCode[] = Object.values(closeCodes);

/** Each code of the README's table, in its order, and the first word on whether to connect again. */
function documented(): [code: number, again: string | undefined][] {
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
  const [, table = ''] = readme.split(/^\| code \| .*connect again\? \|\n\|[-|]+\n/m);
  const rows = table.slice(0, table.indexOf('\n\n')).split('\n');
  return rows.flatMap((row) => {
    const [, names = '', , again = ''] = row.split('|');
    return names.split(',').map((code) => [Number(code), /\w+/.exec(again)?.[0]] as [number, string | undefined]);
  });
}

describe('the close codes', () => {
  it("are each other's only, and may be sent", () => {
    expect(new Set(codes.map(({ code }) => code)).size).to.equal(codes.length);
    for (const { code } of codes)
      expect(code).to.satisfy((it: number) => (it >= 1000 && it < 1012) || (it >= 4000 && it < 5000));
  });

  it('have reasons that fit into a close frame', () => {
    for (const { reason } of codes) expect(Buffer.byteLength(reason)).to.be.at.most(123);
  });

  it('are those of the README, which says of each whether to connect again', () => {
    const expected = codes.map(({ code, reconnect }) => [code, reconnect ? 'yes' : 'no']);
    expect(documented()).to.deep.equal(expected.sort(([a], [b]) => Number(a) - Number(b)));
  });

  it('that tell a client not to connect again keep the browser client from it, and no others do', () => {
    expect([...FINAL_CODES].sort()).to.deep.equal(
      codes
        .filter(({ reconnect }) => !reconnect)
        .map(({ code }) => code)
        .sort(),
    );
  });
});
