import type { Config } from './config.ts';

/** Maximum share of the heap for all budgets together. Connections, tokens, idempotency keys and garbage need the rest. */
const MAX_SHARE = 0.5;
const MIB = 1024 * 1024;

type BudgetConfig = Pick<Config, 'queueDriver' | 'queueMaxBytes' | 'bodyBudgetBytes' | 'responseBudgetBytes'>;

/** @throws {Error} if the budgets of queue, request bodies and responses together exceed half of the main thread's heap */
export function checkHeapBudget(config: BudgetConfig, heapLimitBytes: number): void {
  const { queueDriver, queueMaxBytes, bodyBudgetBytes, responseBudgetBytes } = config;
  // With NATS, the queue takes no heap, because the NATS servers store it.
  const queueBytes = queueDriver === 'nats' ? 0 : queueMaxBytes;
  const bytes = queueBytes + bodyBudgetBytes + responseBudgetBytes;
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
