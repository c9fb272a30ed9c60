/** Thrown by a task's handler if the task can never succeed. The task is then discarded without a retry. */
export class PermanentError extends Error {
  override name = 'PermanentError';
}

type Data = Readonly<Record<string, unknown>>;

const actions = new Map<string, (data: Data) => unknown>([
  ['uppercase', uppercase],
  ['sum', sum],
]);

/** Runs an action of the specification on a task's data and returns the output. @throws {PermanentError} if the data is invalid */
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
