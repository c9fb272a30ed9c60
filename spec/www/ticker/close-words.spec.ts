import { expect } from 'chai';
import { type CloseCode, closeCodes } from '../../../main/ticker/close-codes.ts';
import { CLOSE_WORDS, describeClose } from '../../../www/ticker/close-words.ts';

/** Codes that browsers report without having received them, and the code of a normal closure. */
const OWN_CODES = [1000, 1005, 1006];

describe('the words for close codes', () => {
  const sent: CloseCode[] = Object.values(closeCodes);

  it('exist for every code that the service sends and that browsers report, and for no other', () => {
    const known = Object.keys(CLOSE_WORDS).map(Number);
    expect(known).to.have.members([...sent.map(({ code }) => code), ...OWN_CODES]);
  });

  it('are the reason that the service sends with the code', () => {
    for (const { code, reason } of sent) if (reason !== '') expect(describeClose(code)).to.equal(`${code}: ${reason}`);
  });

  it('say so if a code is unknown', () => {
    expect(describeClose(4999)).to.equal('4999: unknown code');
  });
});
