import { mock } from 'node:test';
import { expect } from 'chai';
import { ServiceLink } from '../../../www/tasks/service-link.ts';
import { afterTest } from '../../support/cleanup.ts';
import { until } from '../../support/until.ts';
import { imitatePage, replaceGlobal } from './imitated-page.ts';

describe('the link of the task board to the service', () => {
  it('waits as long as Retry-After says after a refusal, unless the user asks at once', async () => {
    imitatePage();
    let now = 0;
    let sent = 0;
    replaceGlobal('addEventListener', () => {});
    replaceGlobal('navigator', {});
    mock.method(performance, 'now', () => now);
    mock.timers.enable({ apis: ['setInterval'] });
    afterTest(() => mock.reset());
    replaceGlobal('fetch', async () => {
      sent += 1;
      return Response.json({ error: `server busy ${sent}` }, { status: 503, headers: { 'Retry-After': '2' } });
    });
    const failures: (string | undefined)[] = [];
    const ignore = () => {};
    const link = new ServiceLink({ onStatus: ignore, onEvents: ignore, onGap: ignore });
    link.state.subscribe(({ error }) => failures.push(error));
    const failed = (number: number) => until(() => failures.includes(`server busy ${number}`));
    link.start('');
    // As a member of the group, and as its leader.
    await failed(2);
    now = 1_999;
    mock.timers.tick(1_000);
    expect(sent).to.equal(2);
    link.now();
    await failed(3);
    now = 3_998;
    mock.timers.tick(1_000);
    expect(sent).to.equal(3);
    now = 3_999;
    mock.timers.tick(1_000);
    await failed(4);
    link.signOut();
  });
});
