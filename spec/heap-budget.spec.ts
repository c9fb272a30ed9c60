import { expect } from 'chai';
import { defaults } from '../main/config.ts';
import { checkHeapBudget } from '../main/heap-budget.ts';

const MIB = 1024 * 1024;

describe('The heap budget', () => {
  const queue = { ...defaults.queue, maxBytes: 60 * MIB };
  const tasks = { ...defaults.tasks, bodyBudgetBytes: 10 * MIB, responseBudgetBytes: 30 * MIB };

  it('is at most half of the heap', () => {
    expect(() => checkHeapBudget({ queue, tasks }, 200 * MIB)).not.to.throw();
    expect(() => checkHeapBudget({ queue: { ...queue, maxBytes: 61 * MIB }, tasks }, 200 * MIB)).to.throw(
      'QUEUE_MAX_BYTES + BODY_BUDGET_BYTES + RESPONSE_BUDGET_BYTES is 101 MiB, more than half of the heap limit of 200 MiB: lower them, or set NODE_OPTIONS=--max-old-space-size=202',
    );
  });

  it('does not count a queue that NATS holds', () => {
    const nats = { queue: { ...queue, driver: 'nats' as const, maxBytes: 1000 * MIB }, tasks };
    expect(() => checkHeapBudget(nats, 80 * MIB)).not.to.throw();
    expect(() => checkHeapBudget(nats, 79 * MIB)).to.throw(/^BODY_BUDGET_BYTES \+ RESPONSE_BUDGET_BYTES is 40 MiB/);
  });
});
