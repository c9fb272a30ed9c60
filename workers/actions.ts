/** The task cannot succeed, so retries are pointless. */
export class PermanentError extends Error {
  override name = 'PermanentError';
}

type Data = Readonly<Record<string, unknown>>;

const actions = new Map<string, (data: Data) => unknown>([
  ['uppercase', uppercase],
  ['sum', sum],
]);

/** Returns a task's output by the specification's table of actions. @throws {PermanentError} if the data does not fit */
export function perform(action: string, data: Data): unknown {
  return actions.get(action)?.(data) ?? 'processed';
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
