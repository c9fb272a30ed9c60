import { readFile } from 'node:fs/promises';
import { Compile, type XStatic } from 'typebox/schema';
import type { Log } from '../log/log.ts';

const NAMES = { anyOf: [{ const: '*' }, { type: 'array', items: { type: 'string' } }] } as const;
const TEXT = { type: 'string' } as const;
const POLICY = {
  type: 'object',
  properties: { name: TEXT, group: TEXT, actions: NAMES, resources: NAMES, effect: { enum: ['allow', 'deny'] } },
  required: ['name', 'group', 'actions', 'resources', 'effect'],
} as const;

/** Access rule that allows or denies actions on resources. `*` stands for all. */
export type Policy = XStatic<typeof POLICY>;

/** Compiled, because each token that this process has not seen is checked. */
const scopes = Compile({ type: 'array', items: POLICY } as const);

/** Policies of a token. An empty scope allows nothing. */
export type Scope = readonly Policy[];

export const userPolicyFile = new URL('policies/user.json', import.meta.url);

/** Reads a policy from a JSON file. @throws {Error} if the file does not contain a policy */
export async function loadPolicy(file: URL): Promise<Policy> {
  const policy: unknown = JSON.parse(await readFile(file, 'utf8'));
  if (!isScope([policy])) throw new Error(`${file.pathname} does not contain a policy`);
  return policy as Policy;
}

/** Loads the scope that every token gets. If the file cannot be loaded, logs the error and returns an empty scope. */
export async function loadScope(file: URL, log: Log): Promise<Scope> {
  try {
    return [await loadPolicy(file)];
  } catch (error) {
    log.error({ err: error }, 'the user policy cannot be loaded: tokens are issued with an empty scope');
    return [];
  }
}

/** Whether at least one policy of `scope` allows `action` on `resource`, and none denies it. */
export function allows(scope: Scope, action: string, resource: string): boolean {
  const effects = scope
    .filter((policy) => covers(policy.actions, action) && covers(policy.resources, resource))
    .map((policy) => policy.effect);
  return effects.includes('allow') && !effects.includes('deny');
}

export function isScope(value: unknown): value is Scope {
  return scopes.Check(value);
}

function covers(names: '*' | readonly string[], name: string): boolean {
  return names === '*' || names.includes(name);
}
