/** Maximum number of connections for each listener. */
export interface ConnectionShares {
  /** Open-file limit of the process. The other fields are computed from it. */
  openFiles: number;
  ticker: number;
  /** Maximum number of WebSockets among the ticker's connections. The rest are reserved for plain HTTP requests. */
  webSockets: number;
  tasks: number;
  admin: number;
}

/**
 * Divides the process's file descriptors among the listeners, so that connections never exhaust them. The process
 * itself and the admin listener get descriptors first. The task queue gets at most an eighth of the remainder, and the
 * ticker gets the rest.
 *
 * @param openFiles open-file limit of the process, or Infinity
 * @throws {Error} if `openFiles` is too low; the message states the required limit
 */
export function shareDescriptors(openFiles: number, taskThreads: number): ConnectionShares {
  const own = PROCESS_DESCRIPTORS + taskThreads * THREAD_DESCRIPTORS;
  const fewest = own + FEWEST_CONNECTIONS;
  if (openFiles < fewest) {
    throw new Error(`the limit of open files is ${openFiles}: raise it to at least ${fewest} (ulimit -n)`);
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
 * Number of file descriptors reserved for everything except connections and task threads. About 56 are always in use.
 * The rest is for files that are open briefly.
 */
const PROCESS_DESCRIPTORS = 80;
/** File descriptors reserved per task thread: about 8, plus a reserve while a replacement thread starts. */
const THREAD_DESCRIPTORS = 10;
const FEWEST_CONNECTIONS = 32;

/** Maximum number of admin connections, more than health probes and metrics scrapers need. */
const PLENTY_FOR_ADMIN = 100;
/** Maximum number of task queue connections, unless a sixteenth of all non-admin connections is more. */
const PLENTY_FOR_TASKS = 1200;
/** Maximum number of ticker connections reserved for plain HTTP requests. */
const PLENTY_FOR_REQUESTS = 400;

/** Upper bound for the open-file limit, because the actual limit may be infinite. Linux's default for `fs.nr_open`. */
const MOST_OPEN_FILES = 1_048_576;

/**
 * Returns the fraction of plain (non-WebSocket) connections allowed per address. Behind a proxy, all clients share the
 * proxy's address, so the fraction is 1.
 */
export function addressShare(trustProxy: number): number {
  return trustProxy > 0 ? 1 : 0.5;
}

/** Returns the soft limit on open files, or Infinity. At startup, Node raises the soft limit to the hard limit. */
export function openFilesLimit(): number {
  const { report } = process as unknown as { report: { excludeNetwork: boolean; getReport(): object } };
  const { excludeNetwork } = report;
  // Omits network connections from the report, because Node would make a reverse DNS lookup for each connection.
  report.excludeNetwork = true;
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
  report.excludeNetwork = excludeNetwork;
  const soft = userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : Number.POSITIVE_INFINITY;
}
