import { expect } from 'chai';
import { onceForSuite } from '../support/cleanup.ts';
import { post, startServices } from '../support/program.ts';
import { describeInBrowser, part, partShows, visit } from './chromium.ts';
import { rows, tab } from './task-rows.ts';

describeInBrowser('a task on the board', () => {
  const services = onceForSuite(() => startServices());

  it('that is scheduled is listed with its time, next due first, and runs now on request; one that waits for a limit is listed with what it waits for', async () => {
    const { tasks } = services();
    for (const [action, delay] of [
      ['next week', 604_800],
      ['next hour', 3600],
    ] as const)
      await post(`${tasks}/tasks`, { action, delay, priority: 1 });
    const page = await visit(`${tasks}/?state=scheduled`);
    await rows(page).nth(1).waitFor();
    expect(await rows(page).locator('.task-name').allTextContents()).to.deep.equal(['next hour', 'next week']);
    expect(await rows(page).first().locator('[data-part="time"]').textContent()).to.match(/^in (59|60) min/);
    await part(page, 'count-scheduled').getByText('2', { exact: true }).waitFor();
    await post(`${tasks}/tasks`, { action: 'tomorrow', delay: 86_400 });
    await rows(page).nth(2).waitFor();
    expect(await rows(page).locator('.task-name').allTextContents()).to.deep.equal([
      'next hour',
      'tomorrow',
      'next week',
    ]);

    await rows(page).first().locator('.task-name').click();
    const inspector = page.getByRole('dialog');
    await inspector.getByText('Due, priority 1').waitFor();
    await inspector.getByRole('button', { name: 'Run now' }).click();
    await partShows(page, 'inspector-state', 'completed');
    expect(await inspector.getByRole('button', { name: 'Run now' }).isVisible()).to.equal(false);
    await part(page, 'count-scheduled').getByText('2', { exact: true }).waitFor();

    await page.keyboard.press('Escape');
    const limits = await fetch(`${tasks}/limits/sum`, {
      method: 'PUT',
      body: JSON.stringify({ rate: { count: 1, seconds: 86_400 }, per_key: { concurrency: 1 } }),
    });
    expect(limits.status).to.equal(200);
    for (const priority of [3, 3, 1]) {
      await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: [1] }, limit_key: 'acme', priority });
    }
    await tab(page, 'Limited').click();
    await rows(page).nth(1).waitFor();
    await part(page, 'count-limited').getByText('2', { exact: true }).waitFor();
    expect(await part(page, 'count-queued').textContent()).to.equal('0');
    await rows(page)
      .filter({ hasText: /sum: next start .*\d\d:\d\d:\d\d/ })
      .waitFor();
    await rows(page).filter({ hasText: 'acme: 0 of 1 running, the rest reserved' }).waitFor();
    await rows(page).filter({ hasText: 'priority 1' }).locator('.task-name').click();
    await inspector.getByText(/^Waiting for the limit of (acme|sum): /).waitFor();
    await partShows(page, 'inspector-state', 'limited');
    expect(await part(page, 'facts').locator('dd').allTextContents()).to.deep.equal(['1', 'acme']);
    await page.mouse.move(0, 0);
    await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: [1] } });
    await rows(page).nth(2).waitFor();
    expect((await fetch(`${tasks}/limits/sum`, { method: 'DELETE' })).status).to.equal(204);
    await partShows(page, 'inspector-state', 'completed');
    await page.keyboard.press('Escape');
    await page.getByText('No task waits for a limit.').waitFor();
  });
});
