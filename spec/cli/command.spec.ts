import { expect } from 'chai';
import { withPackageCommands } from '../../main/cli/command.ts';

describe('withPackageCommands', () => {
  it('names the commands of the package instead of the npm scripts of a clone', () => {
    expect(withPackageCommands('list keys with "npm run keys -- list"')).to.equal(
      'list keys with "npx ticker-and-tasks keys list"',
    );
    expect(withPackageCommands('data/auth.db does not exist: run "npm start" or "npm run migrate"')).to.equal(
      'data/auth.db does not exist: run "npx ticker-and-tasks" or "npx ticker-and-tasks migrate"',
    );
  });
});
