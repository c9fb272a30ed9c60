import { mock } from 'node:test';
import type { KV } from '@nats-io/kv';
import { expect } from 'chai';
import { Lease } from '../../main/cluster/lease.ts';
import type { NatsLink } from '../../main/cluster/nats-link.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { until } from '../support/until.ts';

/** Creates a lease with a fake bucket and a clock that the spec controls. */
function create(bucket: Partial<Record<'get' | 'put' | 'delete', () => Promise<unknown>>>) {
  const clock = { ms: 1_000 };
  const time = mock.method(process.hrtime, 'bigint', () => BigInt(clock.ms) * 1_000_000n);
  afterTest(() => time.mock.restore());
  const answers = { get: async () => null, put: async () => 1, delete: async () => {}, ...bucket };
  const lease = new Lease({
    link: { up: true, log: captureLog().log } as NatsLink,
    openBucket: async () => answers as unknown as KV,
    onTaken: async () => {},
  });
  afterTest(() => lease.close());
  return { lease, clock };
}

describe('the lease of the ticker', () => {
  it('ends 1.5 s after it was requested, however late the answer arrives', async () => {
    const { lease, clock } = create({
      async put() {
        clock.ms += 400;
        return 1;
      },
    });
    lease.setWanted(true);
    await until(() => lease.held);
    clock.ms = 1_000 + 1_499;
    expect(lease.held).to.equal(true);
    clock.ms = 1_000 + 1_500;
    expect(lease.held).to.equal(false);
  });

  it('is no longer held when its entry is deleted', async () => {
    const heldAtRelease: boolean[] = [];
    const { lease } = create({
      async delete() {
        heldAtRelease.push(lease.held);
      },
    });
    lease.setWanted(true);
    await until(() => lease.held);
    await lease.close();
    expect(heldAtRelease).to.deep.equal([false]);
  });
});
