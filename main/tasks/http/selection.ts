import type { IncomingMessage } from 'node:http';
import { isFilterable } from '../../../db/task-rows.ts';
import { HttpError } from '../../http/errors.ts';
import { invalidParameter } from '../../http/query-parameters.ts';
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

const TEXT_LENGTH = 256;
const ID_PREFIX = /^[0-9a-f-]{1,36}$/;
/** Unix seconds, with up to milliseconds. */
const TIME = /^\d{1,11}(\.\d{1,3})?$/;

/** Returns the ids, or the filter, in the body of a bulk operation. @throws {HttpError} */
export async function readSelection(
  request: IncomingMessage,
  { bodies: { budget }, turns }: RouterOptions,
  ...names: readonly string[]
): Promise<{ ids: string[] } | Filter> {
  const body = await readJsonObject(request, { limit: MAX_BYTES, budget }, turns);
  const given = Object.keys(body);
  if (given.length === 1 && isIds(body.ids)) return { ids: body.ids };
  if (given.length === 1 && body.all === true) return {};
  const isTime = (name: string) => name === 'since' || name === 'until';
  const isFilter = given.every(
    (name) => names.includes(name) && typeof body[name] === (isTime(name) ? 'number' : 'string'),
  );
  const isEnded = body.state === 'failed' || body.state === 'completed';
  if (given.length === 0 || !isFilter || isEnded) throw new HttpError('selectionRequired');
  return filterOf(Object.fromEntries(given.map((name) => [name, `${body[name]}`])));
}

/** Returns a filter from its fields. @throws {HttpError} */
export function filterOf({
  state,
  action,
  text,
  id,
  schedule,
  reason,
  cause,
  since,
  until,
  ...others
}: Fields): Filter {
  if (action !== undefined && !isFilterable(action)) throw new HttpError('actionTooLong');
  if (text !== undefined && (text.length === 0 || text.length > TEXT_LENGTH))
    throw invalidParameter('text', `must have 1 to ${TEXT_LENGTH} characters`);
  const idPrefix = id?.toLowerCase();
  if (idPrefix !== undefined && !ID_PREFIX.test(idPrefix)) throw invalidParameter('id', 'must be the start of a UUID');
  return {
    ...{ state: cause === undefined ? stateOf(state) : 'failed', action, text, idPrefix, schedule, cause },
    ...{ limitKey: others.limit_key, reasons: reason === undefined ? undefined : [reason] },
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
