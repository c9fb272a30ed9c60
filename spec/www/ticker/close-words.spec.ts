import { expect } from 'chai';
import { type CloseCode, closeCodes } from '../../../main/ticker/close-codes.ts';
import { CLOSE_WORDS, describeClose } from '../../../www/ticker/close-words.ts';

/** Codes that browsers report without having received them, and the code of a normal closure. */
const OWN_CODES = [1000, 1005, 1006];

describe('the words for close codes', () => {
  const sent: CloseCode[] = Object.values(closeCodes);

  it('exist for each code that the service sends or browsers report, and are the reason of the service', () => {
    const known = Object.keys(CLOSE_WORDS).map(Number);
    expect(known).to.have.members([...sent.map(({ code }) => code), ...OWN_CODES]);
    for (const { code, reason } of sent) if (reason !== '') expect(describeClose(code)).to.equal(`${code}: ${reason}`);
    expect(describeClose(4999)).to.equal('4999: unknown code');
  });
});
