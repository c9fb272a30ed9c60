import { expect } from 'chai';
import { Heartbeat } from '../../main/nodes/heartbeat.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import { afterTest } from '../support/cleanup.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { describeWithPostgres, migratedSchema, type Schema } from '../support/servers.ts';
import { severable } from '../support/severable.ts';
import { until } from '../support/until.ts';
import { openBus, openDatabase } from './parts.ts';

/** Opens a node's heartbeat, whose clock the spec advances. @param linkUrl the database for the link, as a proxy */
async function openNode({ url }: Schema, linkUrl = url) {
  const database = openDatabase(url);
  const { bus, log, lines } = await openBus(linkUrl, systemClock, database);
  const clock = new ManualClock();
  const recovered: string[] = [];
  let beats = 0;
  const heartbeat = new Heartbeat({
    bus,
    pool: database,
    store: {
      async recover(owner) {
        recovered.push(owner);
        await database.query("UPDATE messages SET state = 'waiting', owner = NULL WHERE owner = $1", [owner]);
        return [];
      },
    },
    clock,
    log,
  });
  await heartbeat.open();
  afterTest(() => heartbeat.close());
  return {
    id: bus.id,
    bus,
    heartbeat,
    recovered,
    lines,
    /** Lets `count` seconds pass, and waits for the beat of each. */
    async beat(count = 1) {
      for (const last = beats + count; beats < last; beats++) {
        await until(() => clock.timers > 0);
        clock.advance(1000);
      }
      await until(() => clock.timers > 0);
    },
  };
}

const ids = async ({ sql }: Schema) =>
  (await sql<{ id: string }>('SELECT id FROM nodes ORDER BY id')).map(({ id }) => id);

describeWithPostgres('the heartbeats of nodes', () => {
  it('delete the row of a node that has stopped or is gone, and recover the messages of owners without a row', async () => {
    const schema = await migratedSchema();
    await insertRunning(schema, 'task', 'owner of another start');
    const [one, other, stopped] = [await openNode(schema), await openNode(schema), await openNode(schema)];
    await stopped.heartbeat.close();
    await one.beat(10);
    expect(await ids(schema)).to.deep.equal([one.id, other.id].sort());
    await insertRunning(schema, 'another task', other.id);
    await one.beat(2);
    expect(await ids(schema)).to.deep.equal([one.id]);
    await until(() => one.recovered.length > 1);
    expect(one.recovered).to.deep.equal(['owner of another start', other.id]);
    expect(one.lines.find(({ msg }) => msg.startsWith('a node is gone'))).to.include({ node: other.id });
  });

  it('let a node that stood still return, which then beats again', async () => {
    const schema = await migratedSchema();
    const [one, other] = [await openNode(schema), await openNode(schema)];
    await one.beat(12);
    expect(await ids(schema)).to.deep.equal([one.id]);
    await other.beat();
    expect(await ids(schema)).to.deep.equal([one.id, other.id].sort());
    expect(other.lines.find(({ msg }) => msg.startsWith('this node stood still'))).to.include({ level: 40 });
    await one.beat(5);
    await other.beat();
    await one.beat(7);
    expect(await ids(schema)).to.deep.equal([one.id, other.id].sort());
  });

  it('of a node that has lost its link go over its pool, so that it is not taken for dead while it takes tasks', async () => {
    const schema = await migratedSchema();
    const way = await severable(schema.url);
    const [one, other] = [await openNode(schema), await openNode(schema, way.url)];
    await insertRunning(schema, 'task', other.id);
    way.cut();
    await until(() => !other.bus.receiving.isUp);
    for (let round = 0; round < 3; round++) {
      await one.beat(5);
      await other.beat();
    }
    expect(await ids(schema)).to.deep.equal([one.id, other.id].sort());
    expect(one.recovered).to.deep.equal([]);
  });

  it('of other nodes are observed over an unbroken link only', async () => {
    const schema = await migratedSchema();
    const way = await severable(schema.url);
    const [one, other] = [await openNode(schema, way.url), await openNode(schema)];
    await one.beat(9);
    way.cut();
    await until(() => !one.bus.receiving.isUp);
    await one.beat(20);
    way.mend();
    await until(() => one.bus.receiving.isUp);
    await one.beat(9);
    expect(await ids(schema)).to.deep.equal([one.id, other.id].sort());
  });
});

async function insertRunning({ sql }: Schema, id: string, owner: string): Promise<void> {
  await sql(
    `INSERT INTO messages (id, action, state, run_at, accepted_at, delivery, attempts, crashes, deaths, owner, body)
      VALUES ($1, 'sum', 'running', 1, 1, 1, 0, 0, 0, $2, '{}')`,
    [id, owner],
  );
}
