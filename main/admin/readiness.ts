/** Looks whether something is as it has to be. @returns what is wrong, if anything; what it throws says so, too */
export type Check = () => string | undefined | Promise<string | undefined>;

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
export async function readiness(checks: Readonly<Record<string, Check>>): Promise<Readiness> {
  const states = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => [name, await stateOf(check)] as const),
  );
  const ready = states.every(([, { state }]) => state === 'ok');
  return { status: ready ? 'ready' : 'not ready', checks: Object.fromEntries(states) };
}

async function stateOf(check: Check): Promise<CheckState> {
  try {
    const detail = await check();
    return detail === undefined ? { state: 'ok' } : { state: 'failed', detail };
  } catch (error) {
    return { state: 'failed', detail: (error as Error).message };
  }
}
