import { readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { unknownName } from '../../workers/shared/nearest-names.ts';
import type { Log } from '../log/log.ts';

/** Access rule that allows or denies actions on resources. `*` stands for all. */
export interface Policy {
  name: string;
  group: string;
  actions: '*' | readonly string[];
  resources: '*' | readonly string[];
  effect: 'allow' | 'deny';
  /** Tasks to which the resource `task` is restricted: the user's own submissions, a single task, or the tasks of a limit key. */
  tasks?: 'own' | { readonly id: string } | { readonly limit_key: string };
}

/** Policies of a token. An empty scope allows nothing. */
export type Scope = readonly Policy[];

export type ScopeOf = (role: string) => Scope;

const FIELDS = ['name', 'group', 'actions', 'resources', 'effect', 'tasks'];
const ACTIONS = ['create', 'read', 'update', 'delete'];
const RESOURCES = ['task', 'dead_letter', 'queue', 'schedule', 'action', 'handler', 'prices'];

const builtInPolicies = fileURLToPath(new URL('policies/', import.meta.url));

/** Maximum length of a policy file, because a token contains its scope and is sent in a header of limited size. */
const MAX_FILE_LENGTH = 4096;

/** Reads a JSON file with a policy or a list of policies. @throws {Error} if the file does not contain that */
export async function loadScope(file: string): Promise<Scope> {
  const text = await readFile(file, 'utf8');
  if (text.length > MAX_FILE_LENGTH) throw new Error(`it has more than ${MAX_FILE_LENGTH} characters`);
  const content: unknown = JSON.parse(text);
  const scope = Array.isArray(content) ? content : [content];
  if (scope.length === 0 || !isScope(scope)) throw new Error('it does not contain a policy');
  for (const policy of scope) {
    // A misspelt name would restrict or deny nothing.
    const unknown =
      unknownName('field', Object.keys(policy), FIELDS) ??
      unknownName('action', policy.actions === '*' ? [] : policy.actions, ACTIONS) ??
      unknownName('resource', policy.resources === '*' ? [] : policy.resources, RESOURCES);
    if (unknown !== undefined) throw unknown;
    if (policy.tasks !== undefined && !policy.resources.includes('task'))
      throw new Error('a policy with `tasks` must list "task" in `resources`');
  }
  for (const action of ACTIONS) {
    const restrictions = scope.map(({ actions, tasks }) => tasks && covers(actions, action) && JSON.stringify(tasks));
    if (new Set(restrictions.filter(Boolean)).size > 1)
      throw new Error(`policies restrict the action ${action} to different \`tasks\`: keep one`);
  }
  return scope;
}

/**
 * Returns the files of the roles' policies: `<role>.json`.
 *
 * @param own folder of the user's policies
 * @throws {Error} if a folder cannot be read, or if a file has the name of a built-in role
 */
export async function policyFiles(own?: string, builtIn = builtInPolicies): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  for (const folder of own === undefined ? [builtIn] : [builtIn, resolve(own)]) {
    const names = await readdir(folder).catch((error: Error) => {
      throw folder === builtIn ? error : new Error(`POLICIES_DIR must be a folder with policies: ${error.message}`);
    });
    for (const name of names.toSorted()) {
      const [, role] = /^(.+)\.json$/.exec(name) ?? [];
      if (role === undefined) continue;
      if (files.has(role))
        throw new Error(`the policy ${join(folder, name)} has the name of a built-in role: rename it`);
      files.set(role, join(folder, name));
    }
  }
  return files;
}

/**
 * Loads the policies of all roles. A built-in policy that cannot be loaded is logged, and its scope is empty. So is the
 * scope of an unknown role.
 *
 * @throws {Error} if a policy of the user's folder cannot be loaded
 */
export async function loadRoles(log: Log, own?: string, builtIn = builtInPolicies): Promise<ScopeOf> {
  const roles = new Map<string, Scope>();
  for (const [role, file] of await policyFiles(own, builtIn)) {
    try {
      roles.set(role, await loadScope(file));
    } catch (error) {
      if (!file.startsWith(builtIn)) throw new Error(`the policy ${file} cannot be used: ${(error as Error).message}`);
      log.error({ err: error, role }, 'a policy cannot be loaded: tokens of its role are issued with an empty scope');
    }
  }
  return (role) => {
    const scope = roles.get(role);
    if (scope === undefined) log.warn({ role }, 'the role has no policy: its tokens are issued with an empty scope');
    return scope ?? [];
  };
}

/** Whether at least one policy of `scope` allows `action` on `resource`, and none denies it. */
export function allows(scope: Scope, action: string, resource: string): boolean {
  return allowedTasks(scope, action, resource) === 'all';
}

/**
 * Returns the tasks on which `scope` allows `action`, or `all` if it allows it on another resource. If policies
 * restrict it, all do so to the same tasks.
 */
export function allowedTasks(
  scope: Scope,
  action: string,
  resource: string,
): NonNullable<Policy['tasks']> | 'all' | 'none' {
  const covering = scope.filter((policy) => covers(policy.actions, action) && covers(policy.resources, resource));
  if (covering.some(({ effect }) => effect === 'deny')) return 'none';
  const tasks = covering.map((policy) => (resource === 'task' && policy.tasks) || 'all');
  return tasks.includes('all') ? 'all' : (tasks[0] ?? 'none');
}

export function isScope(value: unknown): value is Scope {
  return Array.isArray(value) && value.every(isPolicy);
}

function covers(names: '*' | readonly string[], name: string): boolean {
  return names === '*' || names.includes(name);
}

function isPolicy(value: unknown): value is Policy {
  const { name, group, actions, resources, effect, tasks } = (value ?? {}) as Partial<Record<keyof Policy, unknown>>;
  return (
    typeof name === 'string' &&
    typeof group === 'string' &&
    isNames(actions) &&
    isNames(resources) &&
    (effect === 'allow' || (effect === 'deny' && tasks === undefined)) &&
    (tasks === undefined || isTasks(tasks))
  );
}

function isTasks(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return value === 'own';
  const [[name, text] = [], ...others] = Object.entries(value);
  return others.length === 0 && (name === 'id' || name === 'limit_key') && typeof text === 'string' && text !== '';
}

function isNames(value: unknown): boolean {
  return value === '*' || (Array.isArray(value) && value.every((name) => typeof name === 'string'));
}
