/** Invalid setting. `message` is one line that says what to fix. */
export class ConfigError extends Error {
  override name = 'ConfigError';
  constructor(variable: string, expected: string, got: string) {
    // JSON leaves the line separators of Unicode as they are.
    const oneLine = got.replace(/[\u2028\u2029]/g, (separator) => `\\u${separator.charCodeAt(0).toString(16)}`);
    super(`${variable} must be ${expected}, got ${oneLine}`);
  }
}

/** The environment variables, and the facts on which defaults depend. `shared` is true if several nodes share NATS and PostgreSQL. */
export interface Source {
  env: Readonly<Record<string, string | undefined>>;
  terminal: boolean;
  heapLimitBytes: number;
  shared: boolean;
}

/** Returns the value of a setting. @throws {ConfigError} if its variable is invalid */
export type Parser<T> = (source: Source) => T;

/** Parser for a variable. `parse` returns undefined for an invalid value, which `quote` formats for the error message, without secrets. */
export function variable<T, D extends string | number | boolean | readonly string[] | undefined>(
  name: string,
  fallback: D | Parser<D>,
  parse: (value: string) => T | undefined,
  expected: string,
  quote: (value: string) => string = JSON.stringify,
): Parser<T | D> {
  return (source) => {
    const value = source.env[name];
    if (!value) return typeof fallback === 'function' ? fallback(source) : fallback;
    const parsed = parse(value);
    if (parsed === undefined) throw new ConfigError(name, expected, quote(value));
    return parsed;
  };
}

/** Parser for text. As for all parsers, an empty variable counts as unset. */
export function text<D extends string | undefined = undefined>(name: string, fallback?: D): Parser<string | D> {
  return ({ env }) => env[name] || (fallback as D);
}

/** Parser for a whole number from `min` to `max`. */
export function integer(name: string, fallback: number | Parser<number>, min: number, max = Number.MAX_SAFE_INTEGER) {
  const parse = (value: string) => {
    const number = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN;
    return number >= min && number <= max ? number : undefined;
  };
  const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
  return variable(name, fallback, parse, `a whole number ${range}`);
}

/** Parser for one of `choices`. */
export function oneOf<T extends string>(name: string, fallback: T | Parser<T>, choices: readonly T[]): Parser<T> {
  return variable(name, fallback, (value) => choices.find((each) => each === value), `one of ${choices.join(', ')}`);
}

/** Parser for a boolean, false by default. @param aliases other spellings of the values */
export function flag(name: string, aliases: Record<string, boolean> = {}): Parser<boolean> {
  const values = new Map(Object.entries({ true: true, false: false, ...aliases }));
  return variable(name, false, (value) => values.get(value), 'one of true, false');
}

/** Parser for a comma-separated list of items, which are converted to lower case. The default is an empty list. */
export function list(name: string, isValid: (item: string) => boolean, expected: string): Parser<readonly string[]> {
  const parse = (value: string) => {
    const items = value.split(',').map((item) => item.trim());
    return items.every(isValid) ? items.map((item) => item.toLowerCase()) : undefined;
  };
  return variable(name, [], parse, expected);
}

/** Parser for a comma-separated list of URLs, whose user names and passwords must be valid percent-encoding. */
export function serverUrl(name: string, scheme: RegExp, expected: string): Parser<string | undefined> {
  const isValid = (url: string) => {
    try {
      const { username, password } = new URL(url);
      decodeURIComponent(username + password);
      return scheme.test(url);
    } catch {
      return false;
    }
  };
  const parse = (value: string) => (value.split(',').every(isValid) ? value : undefined);
  // The error message leaves out the value, because a URL may contain a password.
  return variable(name, undefined, parse, expected, () => 'another value');
}

/** Parser that applies `several` if several nodes share servers, else `single`. */
export function ifShared<A, B>(several: Parser<A>, single: Parser<B>): Parser<A | B> {
  return (source) => (source.shared ? several(source) : single(source));
}

/** Default of a byte budget: `bytes`, but at most the heap limit divided by `divisor`. */
export function heapShare(bytes: number, divisor: number): Parser<number> {
  return ({ heapLimitBytes }) => Math.min(bytes, Math.floor(heapLimitBytes / divisor));
}

/** Values that a table of parsers returns. */
export type Parsed<Table> = {
  [Name in keyof Table]: Table[Name] extends Parser<infer Value> ? Value : Parsed<Table[Name]>;
};

/** Applies all parsers of a table. @throws {ConfigError} for the first invalid variable */
export function parseAll<Table extends object>(table: Table, source: Source): Parsed<Table> {
  const parse = (each: object) => (typeof each === 'function' ? each(source) : parseAll(each, source));
  return Object.fromEntries(Object.entries(table).map(([name, each]) => [name, parse(each)])) as Parsed<Table>;
}
