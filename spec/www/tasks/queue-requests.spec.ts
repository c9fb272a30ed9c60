import { expect } from 'chai';
import { QueueRequests } from '../../../www/tasks/queue-requests.ts';
import { until } from '../../support/until.ts';
import { replaceGlobal } from './imitated-page.ts';

describe('the requests for the state of the queue', () => {
  it('wait as long as Retry-After says after a refusal, unless the user asks at once', async () => {
    let now = 0;
    let sent = 0;
    replaceGlobal('performance', { now: () => now });
    replaceGlobal('fetch', async () => {
      sent += 1;
      return Response.json({ error: 'server busy' }, { status: 503, headers: { 'Retry-After': '2' } });
    });
    const failures: string[] = [];
    const onFailure = (error: unknown) => failures.push((error as Error).message);
    const requests = new QueueRequests({ onAnswer: () => {}, onFailure });
    requests.send();
    await until(() => failures.length === 1);
    now = 1_999;
    requests.send();
    expect(sent).to.equal(1);
    requests.sendNow();
    await until(() => failures.length === 2);
    now = 3_998;
    requests.send();
    expect(sent).to.equal(2);
    now = 3_999;
    requests.send();
    await until(() => failures.length === 3);
    expect(failures).to.deep.equal(Array(3).fill('server busy'));
  });
});
