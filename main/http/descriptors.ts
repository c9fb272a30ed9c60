import type { Config } from '../config.ts';

/** Connections that each listener may have. */
export interface ConnectionShares {
  /** Limit of open files that the shares were made from. */
  openFiles: number;
  ticker: number;
  /** Those of the ticker's connections that may be WebSockets: the others are left to plain requests. */
  webSockets: number;
  tasks: number;
  admin: number;
}

/**
 * Shares out the descriptors of the process, so that connections never use them up. The process itself comes first, then the
 * admin listener; an eighth of the rest goes to the task queue, or less where that is plenty, all else to the ticker.
 *
 * @param openFiles limit of open files; Infinity for none
 * @throws {Error} that names the limit to set when `openFiles` leaves too few for connections
 */
export function shareDescriptors(openFiles: number, config: Pick<Config, 'taskConcurrency'>): ConnectionShares {
  const own = PROCESS_DESCRIPTORS + config.taskConcurrency * THREAD_DESCRIPTORS;
  if (openFiles < own + FEWEST_CONNECTIONS) {
    throw new Error(
      `the limit of open files is ${openFiles}: raise it to at least ${own + FEWEST_CONNECTIONS} (ulimit -n)`,
    );
  }
  const connections = Math.min(openFiles, MOST_OPEN_FILES) - own;
  const admin = Math.min(Math.ceil(connections / 16), PLENTY_FOR_ADMIN);
  const rest = connections - admin;
  const tasks = Math.min(Math.floor(rest / 8), Math.max(PLENTY_FOR_TASKS, Math.floor(rest / 16)));
  const ticker = rest - tasks;
  const webSockets = ticker - Math.min(Math.ceil(ticker / 8), PLENTY_FOR_REQUESTS);
  return { openFiles, ticker, webSockets, tasks, admin };
}

/**
 * Descriptors of the process without its task threads: about 40 for the main thread, the ticker's, log and databases, or for
 * connections to servers; 12 for a thread that deletes old rows; 4 for one that parses large bodies; the others for files that are open for a moment.
 */
const PROCESS_DESCRIPTORS = 80;
/** Descriptors of a task thread: about 8, with its database. A replacement may start before the dead thread has closed its own. */
const THREAD_DESCRIPTORS = 10;
const FEWEST_CONNECTIONS = 32;

/** Connections to the admin listener: more than probes and scrapers open. */
const PLENTY_FOR_ADMIN = 100;
/** Up to so many connections the task queue gets its eighth; past that, a sixteenth. */
const PLENTY_FOR_TASKS = 1200;
/** Requests to the ticker that are no WebSockets. */
const PLENTY_FOR_REQUESTS = 400;

/** What Linux lets a process have at most by default. */
const MOST_OPEN_FILES = 1_048_576;

/**
 * Share of a listener's plain connections that one address may hold: half, so that no address holds them all. Behind
 * proxies, whose address all clients share, there is no such bound.
 */
export function addressShare(trustProxy: number): number {
  return trustProxy > 0 ? 1 : 0.5;
}

/** How many descriptors this process may have. (Node has raised the soft limit to the hard one.) */
export function openFilesLimit(): number {
  // The report would ask for the names of all connected hosts.
  Object.assign(process.report, { excludeNetwork: true });
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
  const soft = userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : Number.POSITIVE_INFINITY;
}
