/** Maximum number of connections of each listener. */
export interface ConnectionShares {
  /** Limit on the open files of the process, from which the other fields are computed. */
  openFiles: number;
  ticker: number;
  /** Maximum number of WebSockets among the ticker's connections. The others are reserved for plain HTTP requests. */
  webSockets: number;
  tasks: number;
  admin: number;
}

/**
 * Divides the file descriptors of the process between the listeners, so that connections never exhaust them. The
 * process itself and the admin listener come first. The task queue gets at most an eighth of the others, and the ticker the rest.
 *
 * @param openFiles limit on open files; Infinity if there is none
 * @throws {Error} if `openFiles` is too low; the message names the required limit
 */
export function shareDescriptors(
  openFiles: number,
  { taskConcurrency }: { taskConcurrency: number },
): ConnectionShares {
  const own = PROCESS_DESCRIPTORS + taskConcurrency * THREAD_DESCRIPTORS;
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
 * Number of descriptors that the process needs besides connections and worker threads: about 40 for the main thread, the
 * ticker thread, log, and databases or servers, 12 for the retention thread, 4 for the submission thread, and the rest for
 * files that are open briefly.
 */
const PROCESS_DESCRIPTORS = 80;
/** Descriptors per worker thread: about 8, and a reserve for a replacement that starts before the old thread has ended. */
const THREAD_DESCRIPTORS = 10;
const FEWEST_CONNECTIONS = 32;

/** Maximum number of connections of the admin listener, which is more than health probes and metrics scrapers need. */
const PLENTY_FOR_ADMIN = 100;
/** Maximum number of the task queue's connections, unless a sixteenth of the rest is more. */
const PLENTY_FOR_TASKS = 1200;
/** Maximum number of the ticker's connections that are reserved for plain HTTP requests. */
const PLENTY_FOR_REQUESTS = 400;

/** Value used instead of a higher or infinite limit on open files: Linux's default for `fs.nr_open`. */
const MOST_OPEN_FILES = 1_048_576;

/** Fraction of plain (non-WebSocket) connections that one address may hold: 1 behind a proxy, whose address is shared. */
export function addressShare(trustProxy: number): number {
  return trustProxy > 0 ? 1 : 0.5;
}

/** Returns the soft limit on open files, or Infinity if there is none. Node raises it to the hard limit at startup. */
export function openFilesLimit(): number {
  // Leaves connections out of the report, which would make a reverse DNS lookup for each.
  Object.assign(process.report, { excludeNetwork: true });
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
  const soft = userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : Number.POSITIVE_INFINITY;
}
