import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterTest } from './cleanup.ts';

/** An object in a child process, as its parent calls it: one method at a time. */
export type Remote<Target> = {
  [Name in keyof Target]: Target[Name] extends (...args: infer Args) => infer Result
    ? (...args: Args) => Promise<Awaited<Result>>
    : never;
};

/** Starts a module that calls {@link serveCalls} in a child process, which is killed after the test. */
export function startChild<Target>(url: string): Remote<Target> {
  const child = fork(fileURLToPath(url), { execArgv: [] });
  const exited = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`${url} ended with ${code ?? signal}`);
  });
  exited.catch(() => {});
  afterTest(async () => {
    child.kill('SIGKILL');
    await exited.catch(() => {});
  });
  const call = async (name: string, args: unknown[]) => {
    child.send({ name, args });
    const [{ value, error }] = await Promise.race([once(child, 'message'), exited]);
    if (error !== undefined) throw new Error(error);
    return value;
  };
  return new Proxy({} as Remote<Target>, {
    // An object with a method `then` would be taken for a promise.
    get: (_, name) => (name === 'then' ? undefined : (...args: unknown[]) => call(String(name), args)),
  });
}

export function serveCalls(target: object): void {
  process.on('message', async ({ name, args }: { name: string; args: unknown[] }) => {
    const methods = target as Record<string, (...args: unknown[]) => unknown>;
    try {
      process.send?.({ value: await methods[name]?.(...args) });
    } catch (error) {
      process.send?.({ error: (error as Error).message });
    }
  });
  process.on('disconnect', () => process.exit());
}
