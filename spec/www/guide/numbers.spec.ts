import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { projectFolder } from '../../support/program.ts';
import { startTasksServer } from '../../tasks/http/tasks-server.ts';

const guide = readFileSync(join(projectFolder, 'www/guide/other-clients.md'), 'utf8');

/** Table rows: submitted `data`, and `data` in `payload`. */
const rows = [...guide.matchAll(/^\| `(\{.*?\})` \| `(\{.*?\})` \|/gm)].map(([, submitted = '', stored = '']) => ({
  submitted,
  stored,
}));

describe('data with numbers and text', () => {
  it('is stored as the table of the guide says', async () => {
    expect(rows).to.have.length.above(8);
    const { submit, queued } = await startTasksServer();
    for (const { submitted } of rows)
      expect((await submit(`{"action": "any", "data": ${submitted}}`)).status, submitted).to.equal(202);
    const bodies = (await queued()).map(({ body }) => /"data":(.*),"created_at"/.exec(body)?.[1]);
    expect(bodies).to.deep.equal(rows.map(({ stored }) => stored));
  });

  it('is the same to Idempotency-Key if the values of its numbers are the same', async () => {
    const { submit, queued } = await startTasksServer();
    for (const n of ['12345678901234567890', '12345678901234567891']) {
      const headers = { 'Idempotency-Key': 'a' };
      expect((await submit(`{"action": "any", "data": {"n": ${n}}}`, { headers })).status).to.equal(202);
    }
    expect(await queued()).to.have.length(1);
  });
});
