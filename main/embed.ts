/** Entry point of the npm package. Must import the services lazily, because every worker thread imports this file. */
import { isatty } from 'node:tty';
import { fileURLToPath } from 'node:url';
import { unknownName } from '../workers/shared/nearest-names.ts';
import type { Grant } from '../www/client/credentials.ts';
import type { AnyActions, TaskClient } from '../www/client/task-client.ts';
import type { TickerClient } from '../www/client/ticker-client.ts';

export {
  type Backoff,
  defineHandlers,
  type Handler,
  type HandlerDefinition,
  type Handlers,
  PermanentError,
  RetryAfter,
  type ScheduleDefinition,
  type Schedules,
  type TaskContext,
  type TaskLog,
} from '../workers/tasks/handlers-api.ts';
export { type TestLine, type TestTask, testTask } from './test-task.ts';

export interface StartOptions {
  /** Task handlers module: path relative to the working directory, file URL or package name (`TASK_HANDLERS`). */
  handlers?: string | URL | undefined;
  /** Initial prices by symbol (`TICKER_SYMBOLS`). */
  symbols?: Readonly<Record<string, number>> | undefined;
  /** Price source: a CSV file, or a module given as path, file URL or package name (`PRICE_SOURCE`). */
  priceSource?: string | URL | undefined;
  /** Settings by environment variable name. The process's own environment variables are not read. */
  settings?: Readonly<Record<string, string | number | boolean | undefined>> | undefined;
}

const OPTIONS = ['handlers', 'symbols', 'priceSource', 'settings'];

/** `Own` is the type of the handlers module's default export, whose actions `tasks` knows then. */
export interface RunningServices<Own = AnyActions> {
  /** Ports of the listeners. A port is undefined if its setting, such as `ADMIN_PORT`, is `off`. */
  readonly ports: Readonly<Record<'ticker' | 'tasks' | 'admin', number | undefined>>;
  /** Client of the task queue in this process. Needs no token and may do everything. `stop` closes it. */
  readonly tasks: TaskClient<Own>;
  /** Prices in this process. `stop` ends the iterations. */
  readonly ticker: Pick<TickerClient, 'prices' | 'history'>;
  readonly tokens: {
    /**
     * Issues a bearer token, as `POST /auth/token` does for an API key. The newest `TOKENS_PER_KEY` of a user are valid.
     *
     * @throws {ServiceError | Error} if the token cannot be stored, the role has no policy, or the user id is no short text
     */
    issue(userId: string, role?: string): Promise<Grant>;
  };
  /**
   * Stops the ticker and the task service within `SHUTDOWN_TIMEOUT_MS`. Further calls return the same promise.
   *
   * @returns the number of unfinished tasks, and whether the queue has kept them for the next start
   */
  stop(): Promise<{ unfinished: number; kept: boolean }>;
}

/**
 * Starts the ticker and the task queue in this process. Installs no signal handlers and never exits the process.
 *
 * @throws {Error} if an option is unknown, a setting is invalid, or a service cannot start; the message is one line that says what to fix
 */
export async function start<Own = AnyActions>(options: StartOptions = {}): Promise<RunningServices<Own>> {
  const { runtimeIsNewEnough, tooOld } = await import('./process/runtime.ts');
  if (!runtimeIsNewEnough()) throw new Error(tooOld());
  const [{ loadConfig }, { createLog }, { startServices }, { localClients }] = await Promise.all([
    import('./config.ts'),
    import('./log/log.ts'),
    import('./process/start-services.ts'),
    import('./process/local-clients.ts'),
  ]);
  const misspelt = unknownName('option', Object.keys(options), OPTIONS);
  if (misspelt !== undefined) throw misspelt;
  const config = loadConfig(environment(options), isatty(1));
  const output = await createLog(config.log);
  const services = await startServices(config, output).catch(async (error: unknown) => {
    await output.end();
    throw error;
  });
  const { ticker, tasks, admin } = services.listeners;
  const clients = localClients<Own>(services);
  let stopped: ReturnType<RunningServices['stop']> | undefined;
  return {
    ...clients,
    ports: { ticker: ticker?.port, tasks: tasks?.port, admin: admin?.port },
    stop() {
      stopped ??= services.stop().finally(() => {
        clients.tasks.close();
        return output.end();
      });
      return stopped;
    },
  };
}

/** Number format without an exponent, because the setting `TICKER_SYMBOLS` does not accept `1e-7`. */
const PLAIN = { useGrouping: false, maximumFractionDigits: 20 };

function environment({ handlers, symbols, priceSource, settings = {} }: StartOptions): Record<string, string> {
  const variables = {
    ...settings,
    ...(handlers !== undefined && { TASK_HANDLERS: moduleName('handlers', handlers) }),
    ...(symbols !== undefined && {
      // An empty text would stand for the default.
      TICKER_SYMBOLS:
        Object.entries(symbols)
          .map(([symbol, price]) => `${symbol}:${Number(price).toLocaleString('en-US', PLAIN)}`)
          .join(',') || ',',
    }),
    ...(priceSource !== undefined && { PRICE_SOURCE: moduleName('priceSource', priceSource) }),
  };
  const given = Object.entries(variables).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
}

/** Returns the path of a file URL, or a path or package name unchanged. @throws {TypeError} for anything else */
function moduleName(option: string, module: string | URL): string {
  if (module instanceof URL) return fileURLToPath(module);
  if (typeof module === 'string') return module;
  throw new TypeError(`${option} must be a path, a file URL or a package name, because threads import the module`);
}
