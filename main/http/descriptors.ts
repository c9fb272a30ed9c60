/** Connections that each part of the program may have. */
export interface ConnectionShares {
  ticker: number;
  /** Of those of the ticker, the ones that may be WebSockets: the others are left to answer plain requests. */
  webSockets: number;
  tasks: number;
}

/**
 * Shares out the descriptors of the process, so that connections never use them up: three quarters to the ticker, an
 * eighth to the task queue, and an eighth stays for databases, threads, and files that are being sent.
 *
 * @param openFiles how many the process may have; Infinity where that is not limited
 */
export function shareDescriptors(openFiles: number): ConnectionShares {
  const eighth = Math.max(1, Math.floor(Math.min(openFiles, MOST_OPEN_FILES) / 8));
  const ticker = 6 * eighth;
  return { ticker, webSockets: Math.floor((ticker * 7) / 8), tasks: eighth };
}

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
