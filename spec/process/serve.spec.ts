import { expect } from 'chai';
import { banner } from '../../main/process/serve.ts';

describe('the text that a start prints to a terminal', () => {
  it('shows the URLs, the API key and how to stop', () => {
    const listeners = {
      ticker: { host: '::', port: 8081 },
      tasks: { host: '127.0.0.1', port: 8080 },
      admin: { host: '::1', port: 9464 },
    };
    expect(banner(listeners, 'abc')).to.equal(
      [
        '',
        '  Prices      http://localhost:8081   API key abc',
        '  Tasks       http://localhost:8080',
        '  Operation   http://localhost:9464',
        '  Ctrl-C stops both services.',
        '',
        '',
      ].join('\n'),
    );
  });

  it('shows the address of a listener that is not on loopback, and omits a listener that is off', () => {
    const listeners = { ticker: { host: '192.0.2.7', port: 1 }, tasks: { host: '2001:db8::1', port: 2 } };
    const text = banner(listeners, 'abc');
    expect(text)
      .to.include('http://192.0.2.7:1 ')
      .and.to.include('http://[2001:db8::1]:2\n')
      .and.not.include('Operation');
  });
});
