import type { ActionLimits, Limit } from '../../db/task-store.ts';
import { isObject } from './json-object.ts';

/** Returns the error for a wrong field. `path` is its JSON Pointer, empty for the limits themselves. */
type Fail = (path: string, detail: string) => Error;

const MAX_CONCURRENCY = 100_000;
const MAX_COUNT = 10_000;
const MAX_SECONDS = 24 * 60 * 60;
const MIN_SECONDS = 0.001;

/** Reads the limits of an action. `perKeyName` names the field with those of each key. Throws the error of `fail`. */
export function readLimits(value: unknown, perKeyName: 'per_key' | 'perKey', fail: Fail): ActionLimits {
  if (!isObject(value)) throw fail('', 'must be an object');
  const { [perKeyName]: ofKey, ...own } = value;
  const limit = limitOf(own, '', fail);
  const perKey = ofKey === undefined ? undefined : limitOf(ofKey, `/${perKeyName}`, fail);
  if (perKey !== undefined && isEmpty(perKey)) throw fail(`/${perKeyName}`, 'needs concurrency or rate');
  if (perKey === undefined && isEmpty(limit)) throw fail('', `needs concurrency, rate or ${perKeyName}`);
  return { ...limit, ...(perKey && { perKey }) };
}

function limitOf(value: unknown, path: string, fail: Fail): Limit {
  if (!isObject(value)) throw fail(path, 'must be an object');
  const { concurrency, rate, ...others } = value;
  refuseOthers(others, path, fail);
  if (concurrency !== undefined && !isWholeUpTo(concurrency, MAX_CONCURRENCY))
    throw fail(`${path}/concurrency`, `must be a whole number from 1 to ${MAX_CONCURRENCY}`);
  const rated = rate !== undefined && { rate: rateOf(rate, `${path}/rate`, fail) };
  return { ...(concurrency !== undefined && { concurrency }), ...rated };
}

function rateOf(rate: unknown, path: string, fail: Fail) {
  if (!isObject(rate)) throw fail(path, 'must be an object');
  const { count, seconds, ...others } = rate;
  refuseOthers(others, path, fail);
  if (!isWholeUpTo(count, MAX_COUNT)) throw fail(`${path}/count`, `must be a whole number from 1 to ${MAX_COUNT}`);
  if (typeof seconds !== 'number' || !(seconds >= MIN_SECONDS && seconds <= MAX_SECONDS))
    throw fail(`${path}/seconds`, `must be seconds from ${MIN_SECONDS} to ${MAX_SECONDS}`);
  return { count, ms: Math.ceil(seconds * 1000) };
}

function refuseOthers(others: object, path: string, fail: Fail): void {
  const [name] = Object.keys(others);
  if (name !== undefined) throw fail(`${path}/${name}`, 'is unknown');
}

function isEmpty({ concurrency, rate }: Limit): boolean {
  return concurrency === undefined && rate === undefined;
}

export function isWholeUpTo(value: unknown, max: number): value is number {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= max;
}
