/** Readiness check. Returns the problem, or undefined if healthy. A thrown error also counts as a problem. */
export type Check = () => string | undefined | Promise<string | undefined>;

export type Checks = Readonly<Record<string, Check>>;
