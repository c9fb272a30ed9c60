/**
 * Entry point of the package, for handlers modules and for programs that run the services in their own process. {@link start} imports
 * the services lazily, because handlers modules import this file in every worker thread.
 */
import { isatty } from 'node:tty';
import { fileURLToPath } from 'node:url';

export {
  defineHandlers,
  type Handler,
  type HandlerDefinition,
  type Handlers,
  PermanentError,
  RetryAfter,
  type TaskContext,
  type TaskLog,
} from '../workers/handlers-api.ts';

/** Options of {@link start}. */
export interface StartOptions {
  /** Handlers module: a path relative to the working directory, a file URL, or a package name. Same as `TASK_HANDLERS`. */
  handlers?: string | URL | undefined;
  /** Initial prices by symbol. Same as `TICKER_SYMBOLS`. */
  symbols?: Readonly<Record<string, number>> | undefined;
  /** Price source: a module, given as for `handlers`, or a recording. Same as `PRICE_SOURCE`. */
  priceSource?: string | URL | undefined;
  /** Settings by the names of their environment variables. The environment itself is not read. */
  settings?: Readonly<Record<string, string | number | boolean | undefined>> | undefined;
}

/** The running services. */
export interface RunningServices {
  /** Ports of the listeners. `admin` is undefined if the setting `ADMIN_PORT` is `off`. */
  readonly ports: { readonly ticker: number; readonly tasks: number; readonly admin: number | undefined };
  /**
   * Stops both services within `SHUTDOWN_TIMEOUT_MS`. Further calls return the same promise.
   *
   * @returns the number of unfinished accepted tasks, and whether the queue keeps them for the next start
   */
  stop(): Promise<{ unfinished: number; kept: boolean }>;
}

/**
 * Starts the ticker and the task queue in this process. Installs no signal handlers and never exits the process.
 *
 * @throws {Error} with one line that says what to fix, if a setting is invalid or a service cannot start
 */
export async function start(options: StartOptions = {}): Promise<RunningServices> {
  const { runtimeIsNewEnough, tooOld } = await import('./reexec.ts');
  if (!runtimeIsNewEnough()) throw new Error(tooOld());
  const [{ loadConfig }, { createLog }, { startServices }] = await Promise.all([
    import('./config.ts'),
    import('./log.ts'),
    import('./services.ts'),
  ]);
  const config = loadConfig(environment(options), isatty(1));
  const output = await createLog(config.log);
  const services = await startServices(config, output).catch(async (error: unknown) => {
    await output.end();
    throw error;
  });
  let stopped: ReturnType<RunningServices['stop']> | undefined;
  return {
    ports: services.ports,
    stop() {
      stopped ??= services.stop().finally(() => output.end());
      return stopped;
    },
  };
}

/** Returns the options as environment variables. An option overrides the equivalent setting. */
function environment({ handlers, symbols, priceSource, settings = {} }: StartOptions): Record<string, string> {
  const variables = {
    ...settings,
    ...(handlers !== undefined && { TASK_HANDLERS: moduleName(handlers) }),
    ...(symbols !== undefined && {
      TICKER_SYMBOLS: Object.entries(symbols)
        .map(([symbol, price]) => `${symbol}:${withoutExponent(price)}`)
        .join(','),
    }),
    ...(priceSource !== undefined && { PRICE_SOURCE: moduleName(priceSource) }),
  };
  const given = Object.entries(variables).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
}

/** Formats a price. `TICKER_SYMBOLS` allows no exponent, which JavaScript writes for numbers below 1e-6. */
function withoutExponent(price: number): string {
  const [, fraction = '', exponent] = /^\d(?:\.(\d+))?e-(\d)$/.exec(String(price)) ?? [];
  return exponent === undefined ? String(price) : price.toFixed(fraction.length + Number(exponent));
}

/** Returns a module's path or package name. @throws {TypeError} if a URL is not a file URL */
function moduleName(module: string | URL): string {
  return module instanceof URL ? fileURLToPath(module) : module;
}
