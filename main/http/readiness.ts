/** Readiness check. Returns the problem, or undefined if healthy. A thrown error also counts as a problem. */
export type Check = () => string | undefined | Promise<string | undefined>;

export type Checks = Readonly<Record<string, Check>>;

/** Runs all checks at once. The process is ready if no check of `checks` reports a problem. */
export async function readiness(checks: Checks, warnings: Checks) {
  const states = await Promise.all([...run(checks, 'failed'), ...run(warnings, 'warning')]);
  const isReady = states.every(([, { state }]) => state !== 'failed');
  return { isReady, body: { status: isReady ? 'ready' : 'not ready', checks: Object.fromEntries(states) } };
}

function run(checks: Checks, problem: 'failed' | 'warning') {
  return Object.entries(checks).map(async ([name, check]) => {
    const detail = await Promise.resolve()
      .then(check)
      .catch((error: Error) => error.message);
    return [name, detail === undefined ? { state: 'ok' } : { state: problem, detail }] as const;
  });
}
