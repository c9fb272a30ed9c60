import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { projectFolder } from '../../support/program.ts';
import { startTasksServer } from '../../tasks/http/tasks-server.ts';

const guide = readFileSync(join(projectFolder, 'www/guide/clients.md'), 'utf8');

/** Table rows: submitted `data`, and `data` in `payload`. */
const rows = [...guide.matchAll(/^\| `(\{.*?\})` \| `(\{.*?\})` \|/gm)].map(([, submitted = '', stored = '']) => ({
  submitted,
  stored,
}));

describe('the guide to numbers and text in data', () => {
  it('has a table', () => {
    expect(rows).to.have.length.above(8);
  });

  for (const { submitted, stored } of rows) {
    it(`says that ${submitted} becomes ${stored}`, async () => {
      const { submit, queued } = await startTasksServer();
      expect((await submit(`{"action": "any", "data": ${submitted}}`)).status).to.equal(202);
      expect((await queued())[0]?.body).to.include(`"data":${stored},`);
    });
  }

  it('says that submissions with the same values are the same to Idempotency-Key', async () => {
    const { submit, queued } = await startTasksServer();
    for (const n of ['12345678901234567890', '12345678901234567891']) {
      const headers = { 'Idempotency-Key': 'a' };
      expect((await submit(`{"action": "any", "data": {"n": ${n}}}`, { headers })).status).to.equal(202);
    }
    expect(await queued()).to.have.length(1);
  });
});
