import type { IncomingMessage } from 'node:http';
import { isFilterable } from '../../../db/task-rows.ts';
import { HttpError } from '../../http/errors.ts';
import { invalidParameter } from '../../http/exact-router.ts';
import { readJsonObject } from '../../http/request-body.ts';
import type { Filter } from '../search.ts';
import { isListed, LISTED } from './queue-router.ts';
import type { RouterOptions } from './routing.ts';

const MAX_IDS = 1000;
/** Maximum size in bytes of a body that selects tasks. A list of 1000 UUIDs takes about 40 kB. */
const MAX_BYTES = 64 * 1024;

/** Names of the fields of a filter, in a query or a body. `cause` is one of dead letters only. */
export const FILTERS = ['action', 'text', 'id', 'limit_key', 'schedule', 'reason', 'since', 'until'] as const;

type Fields = { readonly [Name in (typeof FILTERS)[number] | 'state' | 'cause']?: string | undefined };

interface Selection {
  selected: { ids: string[] } | Filter;
  /** Number of tasks that become due per second. Undefined if all become due at once. */
  perSecond: number | undefined;
}

const MIN_PER_SECOND = 0.01;
const MAX_PER_SECOND = 10_000;
const TEXT_LENGTH = 256;
const ID_PREFIX = /^[0-9a-f-]{1,36}$/;
/** Unix seconds. */
const TIME = /^\d{1,11}(\.\d+)?$/;

/** Returns the ids, or the filter, in the body of a bulk operation, with `per_second` if that is among the names. @throws {HttpError} */
export async function readSelection(
  request: IncomingMessage,
  { bodies: { budget }, turns }: RouterOptions,
  ...names: readonly string[]
): Promise<Selection> {
  const body = await readJsonObject(request, { limit: MAX_BYTES, budget }, turns);
  const isPaced = names.includes('per_second');
  const given = Object.keys(body).filter((name) => name !== 'per_second' || !isPaced);
  const perSecond = isPaced ? paceOf(body.per_second) : undefined;
  if (given.length === 1 && isIds(body.ids)) return { selected: { ids: body.ids }, perSecond };
  if (given.length === 1 && body.all === true) return { selected: {}, perSecond };
  const isTime = (name: string) => name === 'since' || name === 'until';
  const isFilter = given.every(
    (name) => names.includes(name) && typeof body[name] === (isTime(name) ? 'number' : 'string'),
  );
  const isEnded = body.state === 'failed' || body.state === 'completed';
  if (given.length === 0 || !isFilter || isEnded) throw new HttpError('selectionRequired');
  return { selected: filterOf(Object.fromEntries(given.map((name) => [name, `${body[name]}`]))), perSecond };
}

function paceOf(perSecond: unknown): number | undefined {
  if (perSecond === undefined) return undefined;
  if (typeof perSecond === 'number' && perSecond >= MIN_PER_SECOND && perSecond <= MAX_PER_SECOND) return perSecond;
  throw invalidParameter('per_second', `must be a number from ${MIN_PER_SECOND} to ${MAX_PER_SECOND}`);
}

/** Returns a filter from its fields. @throws {HttpError} */
export function filterOf(fields: Fields): Filter {
  const { state, action, text, id, limit_key: limitKey, schedule, reason, cause, since, until } = fields;
  if (action !== undefined && !isFilterable(action)) throw new HttpError('actionTooLong');
  if (text !== undefined && (text.length === 0 || text.length > TEXT_LENGTH))
    throw invalidParameter('text', `must have 1 to ${TEXT_LENGTH} characters`);
  if (cause !== undefined && (state ?? 'failed') !== 'failed')
    throw invalidParameter('cause', 'must be given without another state than failed');
  const idPrefix = id?.toLowerCase();
  if (idPrefix !== undefined && !ID_PREFIX.test(idPrefix)) throw invalidParameter('id', 'must be the start of a UUID');
  return {
    ...{ state: cause === undefined ? stateOf(state) : 'failed', action, text, idPrefix, schedule, cause },
    ...{ limitKey, reasons: reason === undefined ? undefined : [reason] },
    ...{ since: timeOf('since', since), until: timeOf('until', until) },
  };
}

function stateOf(name: string | undefined): Filter['state'] {
  if (name === undefined || name === 'failed' || name === 'completed' || name === 'unfinished') return name;
  if (!isListed(name)) throw invalidParameter('state', 'is unknown');
  return LISTED[name][0];
}

function timeOf(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!TIME.test(text)) throw invalidParameter(name, 'must be Unix seconds');
  return Math.round(Number(text) * 1000);
}

function isIds(value: unknown): value is string[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_IDS) return false;
  return value.every((id) => typeof id === 'string');
}
