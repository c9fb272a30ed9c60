import { isDeepStrictEqual } from 'node:util';
import {
  type ActionLimits,
  CALLBACK_ACTION,
  type Limit,
  type StoredLimits,
  type StoredMessage,
  type TaskStore,
} from '../../db/task-store.ts';
import type { HandlersManifest } from '../../workers/tasks/messages.ts';

export const MAX_LIMITED_ACTIONS = 1000;

/** Limits of the requests of callbacks: of all, and of those to each host. */
const CALLBACK_LIMITS: ActionLimits = { concurrency: 64, perKey: { concurrency: 8 } };

/** Returns the limits by action that hold unless a request has set others: those of the handlers module, and of callbacks. */
export function ownLimits(actions: HandlersManifest, callbackHosts: readonly string[]): Map<string, ActionLimits> {
  const limits = [...actions].flatMap(([action, each]) => (each.limits ? [[action, each.limits] as const] : []));
  return new Map(callbackHosts.length > 0 ? [...limits, [CALLBACK_ACTION, CALLBACK_LIMITS]] : limits);
}

/** Stores own limits, and removes the others of a former start. Limits that were set by a request stay. */
export async function storeOwnLimits(store: TaskStore, own: ReadonlyMap<string, ActionLimits>): Promise<void> {
  const stored = await store.limits();
  for (const { action, source } of stored) {
    if (source === 'module' && !own.has(action)) await store.setLimits(action, undefined, source);
  }
  for (const [action, limits] of own) {
    const present = stored.find((each) => each.action === action);
    const isKept = present?.source === 'api' || isDeepStrictEqual(present?.limits, limits);
    if (!isKept) await store.setLimits(action, limits, 'module');
  }
}

export function limitFields({ perKey, ...own }: ActionLimits): object {
  return { ...fieldsOf(own), ...(perKey && { per_key: fieldsOf(perKey) }) };
}

function fieldsOf({ concurrency, rate }: Limit): object {
  return { ...(concurrency && { concurrency }), ...(rate && { rate: { count: rate.count, seconds: rate.ms / 1000 } }) };
}

/** Returns the field `limit` of limited tasks: the limit that each waits for, with its use. Each limit is read once. */
export function limitsOf(store: TaskStore, messages: readonly StoredMessage[]): Promise<object[]> {
  const limits = new Map<string, Promise<object>>();
  const read = async (action: string, key?: string) => {
    const limit = await store.limitOf(action, key);
    return { action, ...(key && { key }), ...fieldsOf(limit), ...useFields(limit) };
  };
  const limitOf = ({ action = '', limitKey, limitedBy }: StoredMessage): Promise<object> => {
    const key = limitedBy === 'key' ? limitKey : undefined;
    const name = JSON.stringify([action, key]);
    const limit = limits.get(name) ?? read(action, key);
    limits.set(name, limit);
    return limit;
  };
  return Promise.all(messages.map(limitOf));
}

export function listedLimits({ action, limits, source, use }: StoredLimits): object {
  return { action, ...limitFields(limits), source, ...useFields(use) };
}

function useFields({ running, nextStartAt }: StoredLimits['use']): object {
  return { running, ...(nextStartAt !== undefined && { next_start_at_ms: nextStartAt }) };
}
