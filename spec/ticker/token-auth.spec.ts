import { expect } from 'chai';
import fc from 'fast-check';
import { bearerToken } from '../../main/ticker/token-auth.ts';

const request = (authorization?: string, protocols?: string, url = '/ws/ticker') => ({
  url,
  headers: {
    ...(authorization !== undefined && { authorization }),
    ...(protocols !== undefined && { 'sec-websocket-protocol': protocols }),
  },
});

describe('the bearer token of a request', () => {
  it('is in the header, in the subprotocol or in the query, in this order', () => {
    const query = '/ws/ticker?token=from-query';
    const protocols = 'ticker.v1, bearer.from-protocol';
    expect(bearerToken(request('Bearer from-header', protocols, query))).to.equal('from-header');
    expect(bearerToken(request(undefined, protocols, query))).to.equal('from-protocol');
    expect(bearerToken(request(undefined, undefined, query))).to.equal('from-query');
    expect(bearerToken(request(undefined, 'ticker.v1', query))).to.equal('from-query');
    expect(bearerToken(request())).to.equal(undefined);
  });

  it('may be written with any case of the scheme and any number of spaces', () => {
    for (const header of ['Bearer abc', 'bearer abc', 'BEARER   abc', 'Bearer abc  '])
      expect(bearerToken(request(header)), header).to.equal('abc');
  });

  it('is none when the header is malformed, wherever else there is one', () => {
    for (const header of ['', 'Bearer', 'Bearer ', 'abc', 'Basic abc', 'Bearer a b', 'Bearerabc', ' Bearer abc'])
      expect(bearerToken(request(header, 'bearer.abc', '/ws/ticker?token=abc')), header).to.equal(undefined);
  });

  it('is the first of the subprotocols that are one', () => {
    expect(bearerToken(request(undefined, 'bearer.a,bearer.b'))).to.equal('a');
    expect(bearerToken(request(undefined, '  bearer.a.b.c ,ticker.v1'))).to.equal('a.b.c');
    expect(bearerToken(request(undefined, 'bearer.'))).to.equal('');
    for (const offered of ['', ',', 'Bearer.a', 'xbearer.a', 'bearer a'])
      expect(bearerToken(request(undefined, offered)), offered).to.equal(undefined);
  });

  it('is the first parameter of that name in the query', () => {
    const cases: [url: string, token: string | undefined][] = [
      ['/ws/ticker?token=a&token=b', 'a'],
      ['/ws/ticker?x=y&token=v3.local.a-b_c', 'v3.local.a-b_c'],
      ['/ws/ticker?token=a%2Eb', 'a.b'],
      ['/ws/ticker?token=', ''],
      ['/ws/ticker?token', ''],
      ['/ws/ticker?Token=a', undefined],
      ['/ws/ticker?', undefined],
      ['/token=a', undefined],
      ['', undefined],
    ];
    for (const [url, token] of cases) expect(bearerToken(request(undefined, undefined, url)), url).to.equal(token);
    expect(bearerToken({ headers: {} })).to.equal(undefined);
  });

  it('is looked for in anything without an error', () => {
    const text = fc.option(fc.string(), { nil: undefined });
    fc.assert(
      fc.property(text, text, fc.string(), (authorization, protocols, url) => {
        expect(['string', 'undefined']).to.include(typeof bearerToken(request(authorization, protocols, url)));
      }),
    );
  });
});
