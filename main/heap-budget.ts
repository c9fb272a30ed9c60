import type { Config } from './config.ts';

/** Maximum share of the heap for all budgets combined. Connections, tokens, idempotency keys and garbage need the rest. */
const MAX_SHARE = 0.5;
const MIB = 1024 * 1024;

/** @throws {Error} if the budgets for the queue, request bodies and responses add up to more than half of the main thread's heap */
export function checkHeapBudget({ queue, tasks }: Pick<Config, 'queue' | 'tasks'>, heapLimitBytes: number): void {
  // With NATS, the queue takes no heap memory, because the NATS servers store it.
  const queueBytes = queue.driver === 'nats' ? 0 : queue.maxBytes;
  const bytes = queueBytes + tasks.bodyBudgetBytes + tasks.responseBudgetBytes;
  if (bytes <= heapLimitBytes * MAX_SHARE) return;
  const names = [...(queueBytes > 0 ? ['QUEUE_MAX_BYTES'] : []), 'BODY_BUDGET_BYTES', 'RESPONSE_BUDGET_BYTES'];
  const heapMb = Math.ceil(bytes / MAX_SHARE / MIB);
  throw new Error(
    `${names.join(' + ')} is ${mib(bytes)}, more than half of the heap limit of ${mib(heapLimitBytes)}: lower them, or set NODE_OPTIONS=--max-old-space-size=${heapMb}`,
  );
}

function mib(bytes: number): string {
  return `${Math.round(bytes / MIB)} MiB`;
}
