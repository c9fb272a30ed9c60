import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { allowedTasks, allows, isScope, loadRoles, loadScope, type Policy } from '../../main/ticker/policy.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';

const base: Policy = { name: 'p', group: 'g', actions: '*', resources: '*', effect: 'allow' };
const policy = (changes: Partial<Policy>): Policy => ({ ...base, ...changes });
const deny = (changes: Partial<Policy> = {}) => policy({ ...changes, effect: 'deny' });

describe('policies', () => {
  it('allow an action on a resource if one of them names both, or all, to the letter, and none denies it', () => {
    const scopes: [scope: Policy[], allowed: boolean][] = [
      [[], false],
      [[base], true],
      [[policy({ actions: ['read', 'create'] })], true],
      [[policy({ actions: ['read'] })], false],
      [[policy({ actions: [] })], false],
      [[policy({ resources: ['handler'] })], true],
      [[policy({ resources: ['ticker'] })], false],
      [[policy({ actions: ['create'], resources: ['x'] }), policy({ actions: ['x'], resources: ['handler'] })], false],
      [[base, deny({ actions: ['read'] })], true],
      [[base, deny()], false],
      [[base, deny({ actions: ['create'] }), base], false],
      [[base, deny({ resources: ['x'] })], true],
      [[policy({ actions: ['*'] })], false],
      [[policy({ actions: ['Create'] })], false],
    ];
    for (const [scope, allowed] of scopes)
      expect(allows(scope, 'create', 'handler'), JSON.stringify(scope)).to.equal(allowed);
  });

  it('make a scope only if all are policies, and no other file can be loaded', async () => {
    const changes = [{ effect: 'maybe' }, { actions: 'create' }, { resources: [1] }, { name: undefined }, { group: 1 }];
    const invalid = changes.map((change) => [{ ...base, ...change }]);
    for (const scope of [[], [base, deny()]]) expect(isScope(scope)).to.equal(true);
    for (const value of [undefined, null, {}, '*', [null], [base, {}], base, ...invalid])
      expect(isScope(value), JSON.stringify(value)).to.equal(false);
    const folder = await temporaryFolder();
    const longest = JSON.stringify({ ...base, name: 'x'.repeat(4097 - JSON.stringify(base).length) });
    await writeFile(join(folder, 'longest'), longest);
    expect(await loadScope(join(folder, 'longest'))).to.deep.equal([JSON.parse(longest)]);
    const bad = ['', '{', 'null', '[]', '"allow"', '{}', `${longest} `];
    for (const [index, text] of [...bad, ...invalid.map((scope) => JSON.stringify(scope))].entries())
      await writeFile(join(folder, `${index}`), text);
    const names = [...bad, ...invalid].map((_, index) => `${index}`);
    for (const name of [...names, 'missing', '.'])
      expect(await loadScope(join(folder, name)).catch((error: unknown) => error), name).to.be.instanceOf(Error);
  });

  it('of own roles are files of a folder, each of which must be valid and have a name of its own', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'auditor.json'), JSON.stringify([base, deny()]));
    await writeFile(join(folder, 'notes.txt'), 'no policy');
    const { log } = captureLog();
    const read = { actions: ['read'], resources: ['task'] };
    expect((await loadRoles(log, folder))('auditor')).to.deep.equal([base, deny()]);
    const messageOf = (path: string) => loadRoles(log, path).catch((error: Error) => error.message);
    const twice = [policy({ resources: ['task'], tasks: 'own' }), policy({ ...read, tasks: { limit_key: 'k' } })];
    for (const [content, reason] of [
      [[], 'it does not contain a policy'],
      [{ ...base, task: 'own' }, 'unknown field "task": did you mean tasks?'],
      [policy({ actions: ['raed'] }), 'unknown action "raed": did you mean read?'],
      [policy({ resources: ['x'] }), 'unknown resource "x"'],
      [policy({ tasks: 'own' }), 'a policy with `tasks` must list "task" in `resources`'],
      [twice, 'policies restrict the action read to different `tasks`: keep one'],
    ] as const) {
      await writeFile(join(folder, 'clerk.json'), JSON.stringify(content));
      expect(await messageOf(folder)).to.equal(`the policy ${join(folder, 'clerk.json')} cannot be used: ${reason}`);
    }
    await rename(join(folder, 'clerk.json'), join(folder, 'viewer.json'));
    const builtIn = `the policy ${join(folder, 'viewer.json')} has the name of a built-in role: rename it`;
    expect(await messageOf(folder)).to.equal(builtIn);
    const missing = /^POLICIES_DIR must be a folder with policies: ENOENT: .*missing'$/;
    expect(await messageOf(join(folder, 'missing'))).to.match(missing);
  });

  it('of tasks allow an action on these only, unless another policy allows it on all', () => {
    const own = policy({ resources: ['task', 'action'], tasks: 'own' });
    expect(allowedTasks([own], 'read', 'task')).to.equal('own');
    expect(['task', 'action'].map((resource) => allows([own], 'read', resource))).to.deep.equal([false, true]);
    expect(allowedTasks([own], 'read', 'queue')).to.equal('none');
    expect(allowedTasks([own, base], 'read', 'task')).to.equal('all');
    expect(allowedTasks([own, deny({ actions: ['read'] })], 'read', 'task')).to.equal('none');
    expect(isScope([policy({ tasks: { id: 'x' } }), policy({ tasks: { limit_key: 'x' } })])).to.equal(true);
    const others = ['all', null, {}, { id: '' }, { id: 1 }, { submitter: 'x' }, { id: 'x', limit_key: 'x' }, ['x']];
    for (const tasks of others) expect(isScope([{ ...base, tasks }]), JSON.stringify(tasks)).to.equal(false);
    expect(isScope([deny({ tasks: 'own' })])).to.equal(false);
  });
});
