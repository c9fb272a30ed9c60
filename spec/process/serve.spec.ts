import { expect } from 'chai';
import { banner } from '../../main/process/serve.ts';

describe('the text that a start prints to a terminal', () => {
  // The whole text is that of the README, see e2e/readme.spec.ts.
  it('has localhost for listeners on loopback and on every interface, and the address of others', () => {
    for (const [host, shown] of Object.entries({
      '::': 'localhost',
      '::1': 'localhost',
      '0.0.0.0': 'localhost',
      '192.0.2.7': '192.0.2.7',
      '2001:db8::1': '[2001:db8::1]',
    })) {
      const listener = { host, port: 1 };
      const text = banner({ ticker: listener, tasks: listener, admin: listener }, 'abc');
      expect(text.match(/http\S+/g), host).to.deep.equal(Array(3).fill(`http://${shown}:1`));
    }
  });

  it('omits the admin listener if it is off', () => {
    const listener = { host: '::1', port: 1 };
    expect(banner({ ticker: listener, tasks: listener }, 'abc')).to.not.include('Operation');
  });
});
