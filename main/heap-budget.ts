import type { Config } from './config.ts';

/** Maximum share of the heap for all byte budgets. Connections, tokens and garbage need the rest. */
const MAX_HEAP_SHARE = 0.5;
const MIB = 1024 * 1024;

/** @throws {Error} if the byte limits of queue, request bodies and responses exceed half of the heap */
export function checkHeapBudget({ queue, tasks }: Pick<Config, 'queue' | 'tasks'>, heapLimitBytes: number): void {
  // With the driver `nats`, the NATS servers store the queue, so the queue uses no heap.
  const queueBytes = queue.driver === 'nats' ? 0 : queue.maxBytes;
  const bytes = queueBytes + tasks.bodyBudgetBytes + tasks.responseBudgetBytes;
  if (bytes <= heapLimitBytes * MAX_HEAP_SHARE) return;
  const names = [...(queueBytes > 0 ? ['QUEUE_MAX_BYTES'] : []), 'BODY_BUDGET_BYTES', 'RESPONSE_BUDGET_BYTES'];
  const heapMb = Math.ceil(bytes / MAX_HEAP_SHARE / MIB);
  throw new Error(
    `${names.join(' + ')} is ${mib(bytes)}, more than half of the heap limit of ${mib(heapLimitBytes)}: lower them, or set NODE_OPTIONS=--max-old-space-size=${heapMb}`,
  );
}

function mib(bytes: number): string {
  return `${Math.round(bytes / MIB)} MiB`;
}
