import { expect } from 'chai';
import { Leader } from '../../main/nodes/leader.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { describeWithPostgres, migratedSchema } from '../support/servers.ts';
import { until } from '../support/until.ts';
import { openDatabase } from './parts.ts';

/** Creates a leader with a clock that the spec shifts. `delay` delays the answers of the server, by that clock. */
function create(url: string, owner: string, delay = () => {}) {
  const database = openDatabase(url);
  const state = { shift: 0, stored: null as string | null, taken: [] as (string | null)[], isUp: true };
  const leader = new Leader({
    link: {
      get isUp() {
        return state.isUp;
      },
      query: async (statement, values, limit) => {
        const rows = await database.query(statement, values, limit);
        delay();
        return rows as never[];
      },
    },
    owner,
    onTaken: (stored) => state.taken.push(stored),
    state: () => state.stored,
    clock: { ...systemClock, now: () => systemClock.now() + state.shift },
    log: captureLog().log,
  });
  afterTest(() => leader.close());
  return { leader, state };
}

describeWithPostgres('the lease of the leader', () => {
  it('is held by one node, and passes to another one at once when it is released', async () => {
    const { url } = await migratedSchema();
    const [one, other] = [create(url, 'one'), create(url, 'other')];
    one.leader.setWanted(true);
    await until(() => one.leader.isHeld);
    other.leader.setWanted(true);
    one.state.stored = 'prices';
    const { epoch } = one.leader;
    await one.leader.close();
    expect(one.leader.isHeld).to.equal(false);
    await until(() => other.leader.isHeld);
    expect(other.leader.epoch).to.equal(epoch + 1);
    expect([one.state.taken, other.state.taken]).to.deep.equal([[null], ['prices']]);
  });

  it('ends on the node 1.5 s after it was requested, however late the answer arrives', async () => {
    const { url } = await migratedSchema();
    const { leader, state } = create(url, 'one', () => {
      state.shift += 400;
    });
    leader.setWanted(true);
    await until(() => leader.isHeld);
    state.isUp = false;
    // At most the renewal interval has passed since the request, and 400 ms of its answer.
    state.shift += 1_100;
    expect(leader.isHeld).to.equal(false);
    expect(new Float64Array(leader.cell)[0]).to.be.below(Number(process.hrtime.bigint()) / 1e6 + 1_100);
  });

  it('passes to another node when its holder stands still, and never before the holder has stopped using it', async () => {
    const { url } = await migratedSchema();
    const [one, other] = [create(url, 'one'), create(url, 'other')];
    one.leader.setWanted(true);
    await until(() => one.leader.isHeld);
    other.leader.setWanted(true);
    one.state.isUp = false;
    await until(() => {
      expect(one.leader.isHeld && other.leader.isHeld).to.equal(false);
      return other.leader.isHeld;
    });
    one.state.isUp = true;
    const { epoch } = other.leader;
    await until(() => other.leader.isHeld && !one.leader.isHeld);
    expect(other.leader.epoch).to.equal(epoch);
  });

  it('is lost when another node has taken it', async () => {
    const { url, sql } = await migratedSchema();
    const { leader } = create(url, 'one');
    leader.setWanted(true);
    await until(() => leader.isHeld);
    await sql(
      "UPDATE leases SET owner = 'other', epoch = epoch + 1, expires_at = clock_timestamp() + interval '1 hour'",
    );
    await until(() => !leader.isHeld);
  });
});
