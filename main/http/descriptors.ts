/** Connections that each part of the program may have. */
export interface ConnectionShares {
  ticker: number;
  /** Of those of the ticker, the ones that may be WebSockets: the others are left to answer plain requests. */
  webSockets: number;
  tasks: number;
}

/**
 * Shares out the descriptors of the process, so that connections never use them up: an eighth to the task queue and an
 * eighth for databases, threads and files that are being sent, or less where that is plenty; the rest to the ticker.
 *
 * @param openFiles how many the process may have; Infinity where that is not limited
 */
export function shareDescriptors(openFiles: number): ConnectionShares {
  const limit = Math.min(openFiles, MOST_OPEN_FILES);
  const eighth = Math.max(1, Math.floor(limit / 8));
  const tasks = Math.min(eighth, Math.max(PLENTY_FOR_TASKS, Math.floor(limit / 16)));
  const ticker = limit - tasks - Math.min(eighth, PLENTY_FOR_FILES);
  return { ticker, webSockets: ticker - Math.min(Math.ceil(ticker / 8), PLENTY_FOR_REQUESTS), tasks };
}

/** Up to so many connections the task queue gets its eighth; past that, a sixteenth. */
const PLENTY_FOR_TASKS = 1200;
const PLENTY_FOR_FILES = 300;
/** Requests to the ticker that are no WebSockets. */
const PLENTY_FOR_REQUESTS = 400;

/** What Linux lets a process have at most by default. */
const MOST_OPEN_FILES = 1_048_576;

/** How many descriptors this process may have. (Node has raised the soft limit to the hard one.) */
export function openFilesLimit(): number {
  // The report would ask for the names of all connected hosts.
  Object.assign(process.report, { excludeNetwork: true });
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
  const soft = userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : Number.POSITIVE_INFINITY;
}
