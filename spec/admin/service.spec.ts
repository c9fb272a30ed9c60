import { expect } from 'chai';
import { logCheck } from '../../main/admin/service.ts';

describe('the check of the log', () => {
  it('warns for 15 minutes after the number of lost lines has grown, and while standard output fails', () => {
    let lost = 0;
    let minutes = 0;
    let failure: string | undefined;
    const check = logCheck({ lost: () => lost, failure: () => failure }, () => minutes * 60_000);
    const found: unknown[] = [];
    for (const [at, lines] of Object.entries({ 0: 0, 1: 3, 15: 3, 16: 3, 20: 4, 34: 4, 35: 4 })) {
      minutes = Number(at);
      lost = lines;
      found.push(check());
    }
    const warning = (count: number) => `${count} log lines were lost, because standard output did not take them`;
    expect(found).to.deep.equal([undefined, warning(3), warning(3), undefined, warning(4), warning(4), undefined]);
    failure = 'ENOSPC: no space left on device, write';
    expect(check()).to.equal(`standard output takes no log lines: ${failure}`);
  });
});
