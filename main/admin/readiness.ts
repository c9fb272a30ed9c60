/** Returns the problem, or undefined when healthy. A thrown error is a problem, too. */
export type Check = () => string | undefined | Promise<string | undefined>;

export interface CheckState {
  state: 'ok' | 'warning' | 'failed';
  /** The problem. */
  detail?: string;
}

/** Whether the process should be sent clients, and what speaks against it. */
export interface Readiness {
  status: 'ready' | 'not ready';
  checks: Record<string, CheckState>;
}

export type Checks = Readonly<Record<string, Check>>;

/**
 * Runs all checks, each by its name, on the main thread: none may block it for long.
 *
 * @param checks the process is ready only if all of them are healthy
 * @param warnings problems that are shown and leave the process ready
 */
export async function readiness(checks: Checks, warnings: Checks = {}): Promise<Readiness> {
  const run = (all: Checks, problem: 'failed' | 'warning') =>
    Object.entries(all).map(async ([name, check]) => [name, await stateOf(check, problem)] as const);
  const states = await Promise.all([...run(checks, 'failed'), ...run(warnings, 'warning')]);
  const ready = states.every(([, { state }]) => state !== 'failed');
  return { status: ready ? 'ready' : 'not ready', checks: Object.fromEntries(states) };
}

async function stateOf(check: Check, problem: 'failed' | 'warning'): Promise<CheckState> {
  try {
    const detail = await check();
    return detail === undefined ? { state: 'ok' } : { state: problem, detail };
  } catch (error) {
    return { state: problem, detail: (error as Error).message };
  }
}
