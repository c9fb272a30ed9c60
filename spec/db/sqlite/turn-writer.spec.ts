import { expect } from 'chai';
import { Database, IN_MEMORY } from '../../../db/sqlite/database.ts';
import { TurnWriter } from '../../../db/sqlite/turn-writer.ts';

describe('TurnWriter', () => {
  it('answers the writes that waited for the end of a hold before anything else continues', async () => {
    const database = new Database(IN_MEMORY, { busyTimeoutMs: 0 });
    const writer = new TurnWriter({ queue: database, file: database, counters: {} });
    const order: string[] = [];
    writer.hold();
    const continued = writer.held?.then(() => order.push('continued'));
    const written = writer.write(() => {}).then(() => order.push('written'));
    writer.resume();
    await Promise.all([continued, written]);
    database.close();
    expect(order).to.deep.equal(['written', 'continued']);
  });
});
