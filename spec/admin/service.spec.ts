import { expect } from 'chai';
import { lostLinesCheck } from '../../main/admin/service.ts';

describe('the check for lost log lines', () => {
  it('warns for 15 minutes after the number of lost lines has grown', () => {
    let lost = 0;
    let minutes = 0;
    const check = lostLinesCheck(
      () => lost,
      () => minutes * 60_000,
    );
    const found: unknown[] = [];
    for (const [at, lines] of Object.entries({ 0: 0, 1: 3, 15: 3, 16: 3, 20: 4, 34: 4, 35: 4 })) {
      minutes = Number(at);
      lost = lines;
      found.push(check());
    }
    const warning = (count: number) => `${count} log lines were lost, because standard output did not take them`;
    expect(found).to.deep.equal([undefined, warning(3), warning(3), undefined, warning(4), warning(4), undefined]);
  });
});
