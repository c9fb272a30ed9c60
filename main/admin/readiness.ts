import type { Check, Checks } from '../readiness-check.ts';

interface CheckState {
  state: 'ok' | 'failed' | 'warning';
  detail?: string;
}

/** Runs all checks at once. The process is ready if no check of `checks` reports a problem. */
export async function readiness(checks: Checks, warnings: Checks) {
  const states = await Promise.all([...run(checks, 'failed'), ...run(warnings, 'warning')]);
  const isReady = states.every(([, { state }]) => state !== 'failed');
  return { isReady, body: { status: isReady ? 'ready' : 'not ready', checks: Object.fromEntries(states) } };
}

function run(checks: Checks, problem: 'failed' | 'warning') {
  return Object.entries(checks).map(async ([name, check]) => [name, await stateOf(check, problem)] as const);
}

async function stateOf(check: Check, problem: 'failed' | 'warning'): Promise<CheckState> {
  try {
    const detail = await check();
    return detail === undefined ? { state: 'ok' } : { state: problem, detail };
  } catch (error) {
    return { state: problem, detail: (error as Error).message };
  }
}
