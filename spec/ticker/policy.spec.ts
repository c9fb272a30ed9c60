import { rm, writeFile } from 'node:fs/promises';
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
      [[deny(), base], false],
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
    const bad = ['', '{', 'null', '[]', '"allow"', '{}', JSON.stringify({ ...base, name: 'x'.repeat(4096) })];
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
    for (const [name, content, reason] of [
      ['clerk.json', [], 'cannot be used: it does not contain a policy'],
      ['clerk.json', { ...base, task: 'own' }, 'cannot be used: unknown field "task": did you mean tasks?'],
      ['clerk.json', policy({ actions: ['raed'] }), 'cannot be used: unknown action "raed": did you mean read?'],
      ['clerk.json', policy({ resources: ['x'] }), 'cannot be used: unknown resource "x"'],
      ['clerk.json', policy({ tasks: 'own' }), 'cannot be used: a policy with `tasks` must list "task" in `resources`'],
      [
        'clerk.json',
        [policy({ resources: ['task'], tasks: 'own' }), policy({ ...read, tasks: { limit_key: 'k' } })],
        'cannot be used: policies restrict the action read to different `tasks`: keep one',
      ],
      ['viewer.json', [], 'has the name of a built-in role: rename it'],
    ] as const) {
      await writeFile(join(folder, name), JSON.stringify(content));
      const message = await loadRoles(log, folder).catch((error: Error) => error.message);
      expect(message).to.equal(`the policy ${join(folder, name)} ${reason}`);
      await rm(join(folder, name));
    }
    const missing = await loadRoles(log, join(folder, 'missing')).catch((error: Error) => error.message);
    expect(missing).to.match(/^POLICIES_DIR must be a folder with policies: ENOENT: .*missing'$/);
  });

  it('of tasks allow an action on these only, unless another policy allows it on all', () => {
    const own = policy({ resources: ['task', 'action'], tasks: 'own' });
    expect(allowedTasks([own], 'read', 'task')).to.equal('own');
    expect(allows([own], 'read', 'task')).to.equal(false);
    expect(allows([own], 'read', 'action')).to.equal(true);
    expect(allowedTasks([own], 'read', 'queue')).to.equal('none');
    expect(allowedTasks([own, base], 'read', 'task')).to.equal('all');
    expect(allowedTasks([own, deny({ actions: ['read'] })], 'read', 'task')).to.equal('none');
    expect(isScope([policy({ tasks: { id: 'x' } }), policy({ tasks: { limit_key: 'x' } })])).to.equal(true);
    const others = ['all', null, {}, { id: '' }, { id: 1 }, { submitter: 'x' }, { id: 'x', limit_key: 'x' }, ['x']];
    for (const tasks of others) expect(isScope([{ ...base, tasks }]), JSON.stringify(tasks)).to.equal(false);
    expect(isScope([deny({ tasks: 'own' })])).to.equal(false);
  });
});
