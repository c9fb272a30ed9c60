import { expect } from 'chai';
import type { Query } from '../../db/postgres/database.ts';
import type { Bus } from '../../main/nodes/bus.ts';
import { NodeTickFeed } from '../../main/nodes/tick-feed.ts';
import type { Tick } from '../../main/ticker/ticker.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { describeWithPostgres, migratedSchema } from '../support/servers.ts';
import { until } from '../support/until.ts';
import { openDatabase } from './parts.ts';

/** Creates a leader with a clock that the spec shifts. `delay` delays the answers of the server, by that clock. */
function create(url: string, owner: string, delay = () => {}) {
  const database = openDatabase(url);
  const state = { shift: 0, taken: [] as Tick[], isUp: true };
  const leader = new NodeTickFeed({
    bus: {
      id: owner,
      receiving: {
        get isUp() {
          return state.isUp;
        },
        query: async (...statement: Parameters<Query>) => {
          const rows = await database.query(...statement);
          delay();
          return rows;
        },
      },
      on: () => {},
      send: () => {},
    } as unknown as Bus,
    intervalMs: 1000,
    clock: { ...systemClock, now: () => systemClock.now() + state.shift },
    log: captureLog().log,
  });
  leader.follow({ onPrices: (tick) => state.taken.push(tick), onTick: () => {} });
  afterTest(() => leader.close());
  return { leader, state };
}

describeWithPostgres('the lease of the leader', () => {
  it('ends on the node 1.5 s after it was requested, however late the answer arrives', async () => {
    const { url } = await migratedSchema();
    const { leader, state } = create(url, 'one', () => {
      state.shift += 400;
    });
    leader.setLeaseWanted(true);
    await until(() => leader.isLeader);
    state.isUp = false;
    // At most the renewal interval has passed since the request, and 400 ms of its answer.
    state.shift += 1_100;
    expect(leader.isLeader).to.equal(false);
    expect(new Float64Array(leader.lease)[0]).to.be.below(Number(process.hrtime.bigint()) / 1e6 + 1_100);
  });

  it('is lost when another node has taken it', async () => {
    const { url, sql } = await migratedSchema();
    const { leader } = create(url, 'one');
    leader.setLeaseWanted(true);
    await until(() => leader.isLeader);
    await sql(
      "UPDATE leases SET owner = 'other', epoch = epoch + 1, expires_at = clock_timestamp() + interval '1 hour'",
    );
    await until(() => !leader.isLeader);
  });
});
