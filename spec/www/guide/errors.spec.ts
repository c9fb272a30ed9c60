import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { catalogue } from '../../../main/http/errors.ts';
import { type CloseCode, closeCodes } from '../../../main/ticker/pid-registry.ts';
import { projectFolder } from '../../support/program.ts';

const guide = readFileSync(join(projectFolder, 'www/guide/errors.md'), 'utf8');

/** Returns the cells of the table rows that begin with a number in this range. */
function rows(from: number, to: number): string[][] {
  const cells = [...guide.matchAll(/^\| (\d+) \|(.*)\|$/gm)].map(([, code, rest = '']) => [
    code as string,
    ...rest.split('|').map((cell) => cell.trim().replaceAll('`', '')),
  ]);
  return cells.filter(([code]) => Number(code) >= from && Number(code) <= to);
}

describe('the guide to errors', () => {
  it('lists every error with its status and advice, and no other', () => {
    const documented = rows(400, 599).map(([status, text]) => `${status} ${text}`);
    const answered = Object.values(catalogue).map(([status, text]) => `${status} ${text}`);
    expect(documented.toSorted()).to.deep.equal(answered.toSorted());
    for (const [, text, advice] of rows(400, 599)) expect(advice, text).to.match(/\w{2}/);
  });

  it('lists every close code with its reason, and whether to reconnect', () => {
    const documented = rows(1000, 4999).map(([code, reason, again = '']) => ({
      code: Number(code),
      reason,
      reconnect: /^(yes|no)/.exec(again)?.[0] === 'yes',
    }));
    const sent: CloseCode[] = Object.values(closeCodes).toSorted((one, other) => one.code - other.code);
    expect(documented).to.deep.equal(sent);
  });
});
