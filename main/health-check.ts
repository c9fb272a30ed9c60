/** Readiness check. Returns the problem, or undefined when healthy. A thrown error counts as a problem. */
export type Check = () => string | undefined | Promise<string | undefined>;

/** Checks by name. */
export type Checks = Readonly<Record<string, Check>>;
