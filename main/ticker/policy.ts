import { readFile } from 'node:fs/promises';
import type { Log } from '../log/log.ts';

/** Access rule that allows or denies actions on resources. `*` stands for all. */
export interface Policy {
  name: string;
  group: string;
  actions: '*' | readonly string[];
  resources: '*' | readonly string[];
  effect: 'allow' | 'deny';
}

/** Policies of a token. An empty scope allows nothing. */
export type Scope = readonly Policy[];

export const userPolicyFile = new URL('policies/user.json', import.meta.url);

/** Reads a policy from a JSON file. @throws {Error} if the file does not contain a policy */
export async function loadPolicy(file: URL): Promise<Policy> {
  const policy: unknown = JSON.parse(await readFile(file, 'utf8'));
  if (!isPolicy(policy)) throw new Error(`${file.pathname} does not contain a policy`);
  return policy;
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
