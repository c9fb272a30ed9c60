import type { Check, Checks } from '../check.ts';

export interface CheckState {
  state: 'ok' | 'warning' | 'failed';
  /** Problem that the check returned. */
  detail?: string;
}

/** Result of the readiness check, with the state of each check. */
export interface Readiness {
  status: 'ready' | 'not ready';
  checks: Record<string, CheckState>;
}

/**
 * Runs all checks on the main thread, which they must not block.
 *
 * @param checks checks by name; the process is ready if all are healthy
 * @param warnings checks by name whose problems are shown but leave the process ready
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
