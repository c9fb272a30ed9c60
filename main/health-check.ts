/** Readiness check. Returns a description of the problem, or undefined when healthy. A thrown error counts as a problem, too. */
export type Check = () => string | undefined | Promise<string | undefined>;

/** Readiness checks by the name that `/readyz` shows. */
export type Checks = Readonly<Record<string, Check>>;
