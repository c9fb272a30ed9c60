import { expect } from 'chai';
import { isCallbackHost, readCallbackUrl } from '../../../workers/submissions/callback-url.ts';

/** A URL of 2049 characters. */
const long = `https://example.com/${'x'.repeat(2029)}`;
const HOSTS = ['example.com', 'other.example:8443', '127.0.0.1:8000', '[::1]', 'localhost'];

describe('a callback URL', () => {
  it('is normalised', () => {
    for (const [value, url] of Object.entries({
      'https://example.com': 'https://example.com/',
      'http://EXAMPLE.com:80/a b?c=d#e': 'http://example.com/a%20b?c=d',
      'https://example.com:443/': 'https://example.com/',
      'https://other.example:8443/x': 'https://other.example:8443/x',
      'http://other.example:8443/x': 'http://other.example:8443/x',
      'http://0x7f.1:8000/': 'http://127.0.0.1:8000/',
      'http://[0:0::1]/': 'http://[::1]/',
      'http://localhost/': 'http://localhost/',
    }))
      expect(readCallbackUrl(value, HOSTS)).to.deep.equal({ url });
    expect(readCallbackUrl(long.slice(0, -1), HOSTS)).to.have.property('url');
  });

  const notListed = (host: string) => `the host ${host} is not in CALLBACK_HOSTS`;
  const withName = 'must have no user name and no password';
  for (const [wrong, ...values] of [
    ['must be a text', null, 1, true, {}, ['https://example.com']],
    ['must be a URL', '', 'example.com', '//example.com', 'https://'],
    ['must begin with https:// or http://', 'ftp://example.com', 'file:///etc/passwd', 'javascript:1'],
    [withName, 'https://user@example.com/', 'https://:secret@example.com/', 'https://example.com@evil.example/'],
    ['must have at most 2048 characters', long, `https://example.com/${'ü'.repeat(400)}`],
    [notListed('example.com:8443'), 'https://example.com:8443/'],
    [notListed('other.example'), 'https://other.example/'],
    [notListed('example.com.'), 'https://example.com./'],
    [notListed('a.example.com'), 'https://a.example.com/'],
    [notListed('127.0.0.1'), 'http://2130706433/'],
    [notListed('evil.example'), 'https://evil.example\\@example.com/'],
  ] as const) {
    it(`is refused: ${wrong}`, () => {
      for (const value of values) expect(readCallbackUrl(value, HOSTS), String(value)).to.deep.equal({ wrong });
    });
  }
});

describe('a host of callbacks', () => {
  it('is a name or an address, perhaps with a port, and nothing else', () => {
    for (const host of ['example.com', 'Example.com:8443', 'xn--bcher-kva.example', '10.0.0.1', '[::1]:80', 'a'])
      expect(isCallbackHost(host), host).to.equal(true);
    const names = ['', '*', '*.example.com:', 'https://example.com', 'example.com/', 'a b', 'bücher.example', 'a@b'];
    const addresses = ['::1', '[0::1]', '127.1', '0x7f000001', '10.0.0.1:', '10.0.0.1:0', '10.0.0.1:65536', 'a:1:2'];
    for (const host of [...names, ...addresses, 'x'.repeat(254)]) expect(isCallbackHost(host), host).to.equal(false);
  });
});
