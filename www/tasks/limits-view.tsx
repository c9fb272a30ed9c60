import type { ActionLimits, Limit } from '../client/limits.ts';
import { formatCount } from './amounts.ts';
import type { FormField } from './fields.ts';
import { Time } from './parts.tsx';
import { limits } from './service.ts';
import type { Settings } from './settings-list.tsx';

const seconds = new Intl.NumberFormat('en-US', { maximumFractionDigits: 3 });

// A text that is no number becomes null in JSON, which the service refuses with the name of the field.
const AMOUNTS: FormField[] = [
  { name: 'concurrency', label: 'Tasks at once', hint: '1 to 100,000' },
  { name: 'rate/count', label: 'Starts', hint: '1 to 10,000' },
  { name: 'rate/seconds', label: 'Period in seconds', hint: '0.001 to 86,400' },
  { name: 'per_key/concurrency', label: 'Tasks of each key at once' },
  { name: 'per_key/rate/count', label: 'Starts of each key' },
  { name: 'per_key/rate/seconds', label: 'Period of each key in seconds', hint: 'Empty fields limit nothing.' },
].map((field) => ({ ...field, parse: Number }));

/** List of the limits of actions with their use. */
export const LIMITS: Settings<ActionLimits> = {
  page: 'limits',
  noun: 'limits',
  key: 'action',
  fields: [{ name: 'action', label: 'Action' }, ...AMOUNTS],
  subject: 'the limits of',
  deleted: 'Those of the handlers module, if it has some, apply again.',
  overridesModule: true,
  empty: 'No action has limits.',
  hint: 'Limits bound how many tasks of an action, or of each of its keys, run at once and start in a period. Set them',
  intervalMs: 2_000,
  read: () => limits.list(),
  put: (action, settings) => limits.put(action, settings),
  delete: limits.delete,
  Cells: ({ per_key, running, next_start_at_ms: nextMs, ...limit }) => (
    <>
      <p>
        {formatCount(running)}
        {limit.concurrency !== undefined && ` of ${formatCount(limit.concurrency)}`} running{' '}
        <span class="quiet">
          {nextMs !== undefined && (
            <>
              next start <Time at={nextMs} />
            </>
          )}
        </span>
      </p>
      <p>{describeLimit(limit)}</p>
      <p>{per_key && `${describeLimit(per_key)} per key`}</p>
    </>
  ),
};

/** Describes a limit as `5 at once, 100 in 60 s`. */
function describeLimit({ concurrency, rate }: Limit): string {
  const perPeriod = rate && `${formatCount(rate.count)} in ${seconds.format(rate.seconds)} s`;
  return [concurrency !== undefined && `${formatCount(concurrency)} at once`, perPeriod].filter(Boolean).join(', ');
}
