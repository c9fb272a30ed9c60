import { expect } from 'chai';
import { type CloseCode, closeCodes } from '../../main/ticker/close-codes.ts';
import { FINAL_CLOSE_CODES } from '../../www/client/errors.ts';

const codes: CloseCode[] = Object.values(closeCodes);

describe('the close codes', () => {
  it("are each other's only, and may be sent", () => {
    expect(new Set(codes.map(({ code }) => code)).size).to.equal(codes.length);
    for (const { code } of codes)
      expect(code).to.satisfy((it: number) => (it >= 1000 && it < 1012) || (it >= 4000 && it < 5000));
  });

  it('have reasons that fit into a close frame', () => {
    for (const { reason } of codes) expect(Buffer.byteLength(reason)).to.be.at.most(123);
  });

  it('that tell a client not to connect again keep the browser client from it, and no others do', () => {
    expect([...FINAL_CLOSE_CODES].sort()).to.deep.equal(
      codes
        .filter(({ reconnect }) => !reconnect)
        .map(({ code }) => code)
        .sort(),
    );
  });
});
