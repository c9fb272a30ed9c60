/** Maximum number of connections of each listener. */
export interface ConnectionShares {
  /** Limit of open files that the shares are computed from. */
  openFiles: number;
  ticker: number;
  /** Maximum number of WebSockets among the ticker's connections. The others are reserved for plain requests. */
  webSockets: number;
  tasks: number;
  admin: number;
}

/**
 * Divides the file descriptors of the process between the listeners, so that connections never exhaust them. Of those that the
 * process itself and the admin listener leave, the task queue gets an eighth, or less if that is plenty, and the ticker the rest.
 *
 * @param openFiles limit of open files; Infinity if there is none
 * @throws {Error} naming the required limit, if `openFiles` is too low
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
 * Descriptors of the process without its task threads: about 40 for the main thread, the ticker thread, log and databases or
 * servers, 12 for the retention thread, 4 for the submission thread, and the rest for files that are open for a moment.
 */
const PROCESS_DESCRIPTORS = 80;
/** Descriptors of a worker thread: about 8, and some spare for a replacement that starts before the old thread closes. */
const THREAD_DESCRIPTORS = 10;
const FEWEST_CONNECTIONS = 32;

/** Maximum share of the admin listener, more than probes and scrapers need. */
const PLENTY_FOR_ADMIN = 100;
/** Connections up to which the task queue gets an eighth. Above, it gets a sixteenth if that is more. */
const PLENTY_FOR_TASKS = 1200;
/** Maximum number of the ticker's connections reserved for plain requests. */
const PLENTY_FOR_REQUESTS = 400;

/** Upper bound on the limit of open files: Linux's default for `fs.nr_open`. */
const MOST_OPEN_FILES = 1_048_576;

/** Share of a listener's plain connections that one address may hold: half, or all behind proxies, whose address clients share. */
export function addressShare(trustProxy: number): number {
  return trustProxy > 0 ? 1 : 0.5;
}

/** Returns the limit of open files, Infinity if none. Node raises the soft limit to the hard limit at its start. */
export function openFilesLimit(): number {
  // Otherwise the report makes a reverse DNS lookup for every connection.
  Object.assign(process.report, { excludeNetwork: true });
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
  const soft = userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : Number.POSITIVE_INFINITY;
}
