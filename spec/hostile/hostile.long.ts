import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { run } from '../support/command.ts';
import type { Result } from './proving-ground.ts';
import { scenarios } from './scenarios/all.ts';

const MIB = 1024 * 1024;

/** Bounds that a slow machine breaks. `npm run hostile` holds them on an idle one. */
const BY_MACHINE = /: (tick late|health answer|peak of memory|resident memory|ticks missed)/;

describe('attacks on real processes', () => {
  it('delay, refuse and disconnect no other client, and keep no memory and no descriptor', async function () {
    if (process.platform !== 'linux') this.skip();
    const file = fileURLToPath(new URL('hostile.ts', import.meta.url));
    const env = { HOSTILE_SECONDS: '1', ...process.env };
    const { code, stdout, stderr } = await run(process.execPath, [file, '--json'], { env, maxBuffer: 64 * MIB });
    console.log(stderr.replaceAll(/^/gm, '    '));
    expect(code, stderr).to.be.oneOf([0, 1]);
    const results: Result[] = JSON.parse(stdout);
    const broken = results.flatMap(({ name, broken }) => broken.map((bound) => `${name}: ${bound}`));
    expect(broken.filter((line) => !BY_MACHINE.test(line))).to.deep.equal([]);
    expect(results.map(({ name }) => name)).to.deep.equal(scenarios.map(({ name }) => name));
    for (const { name, observed } of results) expect(observed.actions, name).to.be.greaterThan(0);
  }).timeout(900_000);
});
