import { expect } from 'chai';
import { rawResponse } from '../../main/http/raw-response.ts';
import { apiHeaders } from '../../main/http/security-headers.ts';
import { parseResponse } from '../support/raw-connection.ts';

describe('a raw response', () => {
  it('is a whole HTTP response that ends the connection', () => {
    const text = rawResponse(400, { error: 'größer' }, { 'X-More': '1' });
    const { status, headers, body } = parseResponse(text);
    expect(status).to.equal(400);
    expect(
      headers.split('\r\n').filter((line) => !Object.keys(apiHeaders).some((name) => line.startsWith(name))),
    ).to.deep.equal([
      'HTTP/1.1 400 Bad Request',
      'Content-Type: application/json; charset=utf-8',
      'Content-Length: 21',
      'Connection: close',
      'X-More: 1',
    ]);
    expect(body).to.equal('{"error":"größer"}\n');
  });
});
