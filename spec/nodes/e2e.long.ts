import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { projectFolder } from '../support/program.ts';
import { describeWithPostgres } from '../support/servers.ts';

/** End-to-end specs that act only as clients. The others read the SQLite files of a single process. */
const files = ['e2e/services', 'www/ticker/snippets', 'e2e/old-node'].map((name) => `spec/${name}.spec.ts`);

describeWithPostgres('a node', () => {
  it('passes the specs of a single process unchanged, from end to end', async () => {
    const mocha = join(projectFolder, 'node_modules/mocha/bin/mocha.js');
    const options = ['--no-config', '--require', 'spec/support/cleanup.ts', '--timeout', '60000', '--reporter', 'json'];
    const { stdout } = await promisify(execFile)(process.execPath, [mocha, ...options, ...files], {
      cwd: projectFolder,
      env: { ...process.env, SPEC_ENGINE: 'nodes' },
      maxBuffer: 64 * 1024 * 1024,
    }).catch((error: { stdout: string }) => error);
    const { stats, failures, pending } = JSON.parse(stdout.slice(stdout.indexOf('{\n')));
    const titles = (tests: { fullTitle: string; err?: { message?: string } }[]) =>
      tests.map(({ fullTitle, err }) => `${fullTitle}: ${err?.message ?? ''}`);
    expect([titles(failures), titles(pending)]).to.deep.equal([[], []]);
    expect(stats.passes).to.be.at.least(14);
  });
});
