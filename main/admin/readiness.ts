/** Looks whether something is as it has to be. @returns what is wrong, if anything; what it throws says so, too */
export type Check = () => string | undefined;

export interface CheckState {
  state: 'ok' | 'failed';
  /** What is wrong. */
  detail?: string;
}

/** Whether the process should be sent clients, and what speaks against it. */
export interface Readiness {
  status: 'ready' | 'not ready';
  checks: Record<string, CheckState>;
}

/** Makes all checks, each by its name. None of them may take long: they are made on the main thread. */
export function readiness(checks: Readonly<Record<string, Check>>): Readiness {
  const states = Object.entries(checks).map(([name, check]) => [name, stateOf(check)] as const);
  const ready = states.every(([, { state }]) => state === 'ok');
  return { status: ready ? 'ready' : 'not ready', checks: Object.fromEntries(states) };
}

function stateOf(check: Check): CheckState {
  try {
    const detail = check();
    return detail === undefined ? { state: 'ok' } : { state: 'failed', detail };
  } catch (error) {
    return { state: 'failed', detail: (error as Error).message };
  }
}
