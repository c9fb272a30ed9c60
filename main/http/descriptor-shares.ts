/** Maximum numbers of connections of each listener. `webSockets` are among those of the ticker. */
export type ConnectionShares = ReturnType<typeof shareDescriptors>;

/** Divides the open files of the process among the listeners. @throws {Error} that states the required limit */
export function shareDescriptors(openFiles: number, taskThreads: number) {
  const own = PROCESS_DESCRIPTORS + taskThreads * THREAD_DESCRIPTORS;
  const fewest = own + FEWEST_CONNECTIONS;
  if (openFiles < fewest) {
    throw new Error(`the limit of open files is ${openFiles}: raise it to at least ${fewest} (ulimit -n)`);
  }
  const connections = Math.min(openFiles, MOST_OPEN_FILES) - own;
  const admin = Math.min(Math.ceil(connections / 16), MAX_ADMIN_CONNECTIONS);
  const rest = connections - admin;
  const tasks = Math.min(Math.floor(rest / 8), Math.max(MAX_TASK_CONNECTIONS, Math.floor(rest / 16)));
  const ticker = rest - tasks;
  const webSockets = ticker - Math.min(Math.ceil(ticker / 8), MAX_RESERVED_FOR_HTTP);
  return { openFiles, ticker, webSockets, tasks, admin };
}

/** File descriptors that are neither connections nor used by worker threads: about 56, plus briefly open files. */
const PROCESS_DESCRIPTORS = 80;
/** File descriptors per worker thread: about 8, plus a reserve while a replacement thread starts. */
const THREAD_DESCRIPTORS = 10;
const FEWEST_CONNECTIONS = 32;

const MAX_ADMIN_CONNECTIONS = 100;
/** Maximum number of task service connections, unless a sixteenth of all non-admin connections is more. */
const MAX_TASK_CONNECTIONS = 1200;
const MAX_RESERVED_FOR_HTTP = 400;

/** Linux's default for `fs.nr_open`, used as an upper bound because the open-file limit may be Infinity. */
const MOST_OPEN_FILES = 1_048_576;

/** Returns the soft limit on open files, or Infinity. Node raises the soft limit to the hard limit at startup. */
export function openFilesLimit(): number {
  const { report } = process as unknown as { report: { excludeNetwork: boolean; getReport(): object } };
  const { excludeNetwork } = report;
  // Without `excludeNetwork`, `getReport` would make a reverse DNS lookup for each connection.
  report.excludeNetwork = true;
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
  report.excludeNetwork = excludeNetwork;
  const soft = userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : Number.POSITIVE_INFINITY;
}
