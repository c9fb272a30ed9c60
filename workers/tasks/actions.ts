import { PermanentError } from './handlers-api.ts';

type Data = Readonly<Record<string, unknown>>;

const actions = new Map<string, (data: Data) => unknown>([
  ['uppercase', uppercase],
  ['sum', sum],
]);

export const builtInActions: readonly string[] = [...actions.keys()];

/**
 * Returns `processed` for an unknown action. @throws {PermanentError} if the data is invalid
 * @throws {Error} if unknown actions are rejected: another node, or a later version of the module, may have the handler
 */
export function perform(action: string, data: Data, rejectUnknown = false): unknown {
  const run = actions.get(action);
  if (run === undefined && rejectUnknown) throw new Error(`no handler has the action ${action}`);
  return run?.(data) ?? 'processed';
}

function uppercase({ text = '' }: Data): string {
  if (typeof text !== 'string') throw new PermanentError('data.text must be a string');
  return text.toUpperCase();
}

function sum({ numbers = [] }: Data): number {
  if (!Array.isArray(numbers)) throw new PermanentError('data.numbers must be an array');
  let total = 0;
  for (const number of numbers) {
    if (typeof number !== 'number' || !Number.isFinite(number)) {
      throw new PermanentError('data.numbers must hold finite numbers only');
    }
    total += number;
  }
  if (!Number.isFinite(total)) throw new PermanentError('the sum of data.numbers is too large');
  return total;
}
