import { readFile } from 'node:fs/promises';
import type { Log } from '../log.ts';

/** What actors may do: allows or denies actions on resources; `*` stands for all of them. */
export interface Policy {
  name: string;
  group: string;
  actions: '*' | readonly string[];
  resources: '*' | readonly string[];
  effect: 'allow' | 'deny';
}

/** The policies that a token carries. An empty scope allows nothing. */
export type Scope = readonly Policy[];

/** The user policy of the specification: all actions, all resources, effect allow, group `user`. */
export const userPolicyFile = new URL('policies/user.json', import.meta.url);

/**
 * Reads a policy from its file.
 *
 * @throws {Error} when the file cannot be read or holds no policy
 */
export async function loadPolicy(file: URL): Promise<Policy> {
  const policy: unknown = JSON.parse(await readFile(file, 'utf8'));
  if (!isPolicy(policy)) throw new Error(`${file.pathname} does not hold a policy`);
  return policy;
}

/**
 * Reads the scope of the tokens, once for the life of the process: an exchange opens no file. Without its policy the scope is
 * empty.
 */
export async function loadScope(file: URL, log: Log): Promise<Scope> {
  try {
    return [await loadPolicy(file)];
  } catch (error) {
    log.error({ err: error }, 'the user policy cannot be loaded: tokens are issued with an empty scope');
    return [];
  }
}

/** Whether `scope` allows `action` on `resource`: some policy allows it and none denies it. */
export function allows(scope: Scope, action: string, resource: string): boolean {
  const effects = scope
    .filter((policy) => covers(policy.actions, action) && covers(policy.resources, resource))
    .map((policy) => policy.effect);
  return effects.includes('allow') && !effects.includes('deny');
}

/** Whether a value of unknown origin is a {@link Scope}. */
export function isScope(value: unknown): value is Scope {
  return Array.isArray(value) && value.every(isPolicy);
}

function covers(names: '*' | readonly string[], name: string): boolean {
  return names === '*' || names.includes(name);
}

function isPolicy(value: unknown): value is Policy {
  const { name, group, actions, resources, effect } = (value ?? {}) as Partial<Record<keyof Policy, unknown>>;
  return (
    typeof name === 'string' &&
    typeof group === 'string' &&
    isNames(actions) &&
    isNames(resources) &&
    (effect === 'allow' || effect === 'deny')
  );
}

function isNames(value: unknown): boolean {
  return value === '*' || (Array.isArray(value) && value.every((name) => typeof name === 'string'));
}
