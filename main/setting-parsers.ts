/** Thrown for an invalid setting. The message is one line that says what to fix. */
export class ConfigError extends Error {
  override name = 'ConfigError';
  constructor(variable: string, expected: string, got: string) {
    // `JSON.stringify` does not escape U+2028 and U+2029, which would split the message into several lines.
    const oneLine = got.replace(/[\u2028\u2029]/g, (separator) => `\\u${separator.charCodeAt(0).toString(16)}`);
    super(`${variable} must be ${expected}, got ${oneLine}`);
  }
}

/** Input of a setting's parser. `shared` is true if several nodes share NATS and PostgreSQL servers. */
export interface Source {
  env: Readonly<Record<string, string | undefined>>;
  terminal: boolean;
  heapLimitBytes: number;
  shared: boolean;
}

export type Parser<T> = (source: Source) => T;

/**
 * Creates a parser for an environment variable.
 *
 * @param parse returns undefined for an invalid value
 * @param quote formats an invalid value for the error message; must not reveal secrets
 */
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

export function text<D extends string | undefined = undefined>(name: string, fallback?: D): Parser<string | D> {
  return ({ env }) => env[name] || (fallback as D);
}

/** Creates a parser for a whole number. @param others end of the error message, for values that the caller accepts */
export function integer(
  name: string,
  fallback: number | Parser<number>,
  min: number,
  max = Number.MAX_SAFE_INTEGER,
  others = '',
) {
  const parse = (value: string) => {
    const number = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN;
    return number >= min && number <= max ? number : undefined;
  };
  const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
  return variable(name, fallback, parse, `a whole number ${range}${others}`);
}

/** Creates a parser for one of `choices`. @param condition when the choices apply, for the error message */
export function oneOf<T extends string>(
  name: string,
  fallback: T | Parser<T>,
  choices: readonly T[],
  condition = '',
): Parser<T> {
  const expected = `one of ${choices.join(', ')}${condition}`;
  return variable(name, fallback, (value) => choices.find((each) => each === value), expected);
}

/** Creates a parser for a boolean, false by default. @param aliases further accepted values, such as `1` for true */
export function flag(name: string, aliases: Record<string, boolean> = {}): Parser<boolean> {
  const values = new Map(Object.entries({ true: true, false: false, ...aliases }));
  return variable(name, false, (value) => values.get(value), 'one of true, false');
}

/** Creates a parser for a comma-separated list, empty by default. Items are converted to lower case. */
export function list(name: string, isValid: (item: string) => boolean, expected: string): Parser<readonly string[]> {
  const parse = (value: string) => {
    const items = value.split(',').map((item) => item.trim());
    return items.every(isValid) ? items.map((item) => item.toLowerCase()) : undefined;
  };
  return variable(name, [], parse, expected);
}

/** Creates a parser for comma-separated URLs whose user names and passwords are valid percent-encoding. */
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
  // The error message must not contain the value, because a URL may contain a password.
  return variable(name, undefined, parse, expected, () => 'another value');
}

/** Creates a parser that uses `several` if nodes share servers, and `single` on a single node. */
export function ifShared<A, B>(several: Parser<A>, single: Parser<B>): Parser<A | B> {
  return (source) => (source.shared ? several(source) : single(source));
}

/** Creates the default of a memory limit: `bytes`, or the heap limit divided by `divisor` if that is less. */
export function heapShare(bytes: number, divisor: number): Parser<number> {
  return ({ heapLimitBytes }) => Math.min(bytes, Math.floor(heapLimitBytes / divisor));
}

export type Parsed<Table> = {
  [Name in keyof Table]: Table[Name] extends Parser<infer Value> ? Value : Parsed<Table[Name]>;
};

/** Applies all parsers of a nested table. @throws {ConfigError} for the first invalid variable */
export function parseAll<Table extends object>(table: Table, source: Source): Parsed<Table> {
  const parse = (each: object) => (typeof each === 'function' ? each(source) : parseAll(each, source));
  return Object.fromEntries(Object.entries(table).map(([name, each]) => [name, parse(each)])) as Parsed<Table>;
}
