import { expect } from 'chai';
import { ConfigError, defaults, loadConfig } from '../main/config.ts';

describe('config', () => {
  it('has the defaults where the environment is silent', () => {
    expect(loadConfig({})).to.deep.equal(defaults);
  });
});
