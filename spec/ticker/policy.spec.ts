import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import fc from 'fast-check';
import { allows, isScope, loadPolicy, type Policy, userPolicyFile } from '../../main/ticker/policy.ts';
import { temporaryFolder } from '../support/cleanup.ts';

const base: Policy = { name: 'p', group: 'g', actions: '*', resources: '*', effect: 'allow' };
const policy = (changes: Partial<Policy>): Policy => ({ ...base, ...changes });
const deny = (changes: Partial<Policy> = {}) => policy({ ...changes, effect: 'deny' });

describe('policies', () => {
  const table: { scope: Policy[]; allowed: boolean; title: string }[] = [
    { title: 'no policy', scope: [], allowed: false },
    { title: 'everything allowed', scope: [base], allowed: true },
    { title: 'the action allowed', scope: [policy({ actions: ['read', 'create'] })], allowed: true },
    { title: 'another action allowed', scope: [policy({ actions: ['read'] })], allowed: false },
    { title: 'no action allowed', scope: [policy({ actions: [] })], allowed: false },
    { title: 'the resource allowed', scope: [policy({ resources: ['handler'] })], allowed: true },
    { title: 'another resource allowed', scope: [policy({ resources: ['ticker'] })], allowed: false },
    {
      title: 'action and resource by two policies',
      scope: [policy({ actions: ['create'], resources: ['x'] }), policy({ actions: ['x'], resources: ['handler'] })],
      allowed: false,
    },
    { title: 'allowed, and another action denied', scope: [base, deny({ actions: ['read'] })], allowed: true },
    { title: 'allowed, and another resource denied', scope: [base, deny({ resources: ['x'] })], allowed: true },
    { title: 'a star among names', scope: [policy({ actions: ['*'] })], allowed: false },
    { title: 'another case', scope: [policy({ actions: ['Create'] })], allowed: false },
  ];
  for (const { title, scope, allowed } of table) {
    it(`${allowed ? 'allow' : 'refuse'} with ${title}`, () => {
      expect(allows(scope, 'create', 'handler')).to.equal(allowed);
    });
  }

  it('allow nothing that one of them denies, whatever the others say and wherever it stands', () => {
    const names = fc.oneof(fc.constant('*' as const), fc.subarray(['create', 'read', 'handler', 'ticker']));
    const any: fc.Arbitrary<Policy> = fc.record({
      name: fc.string(),
      group: fc.string(),
      actions: names,
      resources: names,
      effect: fc.constantFrom('allow' as const, 'deny' as const),
    });
    fc.assert(
      fc.property(fc.array(any), fc.nat(), (others, at) => {
        const index = at % (others.length + 1);
        expect(allows(others.toSpliced(index, 0, deny()), 'create', 'handler')).to.equal(false);
        expect(allows(others.toReversed(), 'create', 'handler')).to.equal(allows(others, 'create', 'handler'));
      }),
    );
  });

  it('of the user allow all actions on all resources', async () => {
    expect(await loadPolicy(userPolicyFile)).to.deep.equal({
      name: 'user',
      group: 'user',
      actions: '*',
      resources: '*',
      effect: 'allow',
    });
  });

  it('cannot be loaded from what holds none', async () => {
    const folder = await temporaryFolder();
    const file = join(folder, 'policy.json');
    const bad = [
      '',
      '{',
      'null',
      '[]',
      '"allow"',
      '{}',
      JSON.stringify({ ...base, effect: 'maybe' }),
      JSON.stringify({ ...base, actions: 'create' }),
      JSON.stringify({ ...base, resources: [1] }),
      JSON.stringify({ ...base, name: undefined }),
      JSON.stringify({ ...base, group: 1 }),
    ];
    for (const text of bad) {
      await writeFile(file, text);
      expect(await loadPolicy(pathToFileURL(file)).catch((error: unknown) => error), text).to.be.instanceOf(Error);
    }
    await mkdir(join(folder, 'folder'));
    for (const name of ['missing', 'folder'])
      expect(await loadPolicy(pathToFileURL(join(folder, name))).catch((error: unknown) => error)).to.include.keys(
        'code',
      );
  });

  it('make a scope when all of them are policies', () => {
    expect(isScope([])).to.equal(true);
    expect(isScope([base, deny()])).to.equal(true);
    for (const value of [undefined, null, {}, '*', [null], [base, {}], base])
      expect(isScope(value), JSON.stringify(value)).to.equal(false);
  });
});
