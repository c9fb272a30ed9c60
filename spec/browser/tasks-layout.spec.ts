import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { post, request, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { describeInBrowser, expectFewShifts, overflow, part, partShows, recordShifts, visit } from './chromium.ts';
import { rows } from './task-rows.ts';

const top = (page: Page, name: string) => part(page, name).evaluate((element) => element.getBoundingClientRect().top);

describeInBrowser('the layout of the task board', () => {
  const services = onceForSuite(async () => {
    const started = await startServices();
    const tasks: object[] = Array.from({ length: 100 }, (_, index) => ({ action: `action-${index}` }));
    tasks.push({ action: 'W'.repeat(200), data: { text: 'W'.repeat(300) } });
    await post(`${started.tasks}/tasks/batch`, { tasks });
    return started;
  });

  it('moves nothing while 100 rows load, and shows the first rows at once on a laptop, puts the list before the form on a small screen, and never scrolls sideways', async () => {
    const page = await visit(services().tasks, { width: 1280, height: 800, prepare: recordShifts });
    await rows(page).nth(99).waitFor();
    await partShows(page, 'count-completed', '101');
    await expectFewShifts(page, 0.02);
    const [find, pause] = [await top(page, 'find'), await top(page, 'pause')];
    expect(Math.abs(find - pause), 'the buttons of the list are in one line').to.be.below(20);
    const tops = [];
    for (const name of ['health', 'tabs', 'find', 'task-rows']) tops.push(await top(page, name));
    expect(tops).to.deep.equal([...tops].sort((one, other) => one - other));
    const fifth = await rows(page).nth(4).boundingBox();
    expect(fifth?.y).to.be.below(770);
    const form = await part(page, 'submit-form').boundingBox();
    const list = await part(page, 'list').boundingBox();
    expect(form?.x, 'the form is beside the list').to.be.above((list?.x ?? 0) + (list?.width ?? 0));
    expect(await part(page, 'to-form').isVisible()).to.equal(false);

    await page.emulateMedia({ forcedColors: 'active', reducedMotion: 'reduce' });
    const marks = await page.locator('.tab .mark').evaluateAll((all) =>
      all.map((mark) => {
        const { borderWidth, borderStyle, borderRadius, clipPath, rotate } = getComputedStyle(mark);
        return [borderWidth, borderStyle, borderRadius, clipPath, rotate].join(' ');
      }),
    );
    expect(new Set(marks).size, 'states in forced colours').to.equal(7);
    const borders = await page
      .locator('.tab')
      .evaluateAll((all) => all.map((each) => getComputedStyle(each).borderTopColor));
    expect(borders[5], 'the current tab in forced colours').to.not.equal(borders[0]);
    expect(await page.evaluate(() => document.getAnimations().length)).to.equal(0);

    await page.emulateMedia({ forcedColors: 'none', media: 'print', colorScheme: 'dark' });
    expect(await part(page, 'task-rows').isVisible()).to.equal(true);
    for (const name of ['submit-form', 'find', 'pause']) expect(await part(page, name).isVisible()).to.equal(false);
    const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    expect(ground).to.match(/rgb\(2\d\d, 2\d\d, 2\d\d\)/);

    await page.emulateMedia({ media: 'screen' });
    await page.setViewportSize({ width: 320, height: 640 });
    expect(await top(page, 'task-rows')).to.be.below(await top(page, 'submit-form'));
    await page.getByRole('link', { name: 'Queue a task' }).click();
    expect(await page.evaluate(() => document.activeElement?.id)).to.equal('text');
    expect(await top(page, 'submit-form')).to.be.within(0, 640);
    await page.evaluate(() => {
      document.documentElement.style.fontSize = '200%';
    });
    for (const width of [320, 768, 2560]) {
      await page.setViewportSize({ width, height: 800 });
      // Charts follow the width in the next frame.
      await eventually(
        () => overflow(page),
        (pixels) => pixels <= 0,
      );
    }
  });

  it('names the JSON listings for browsers without scripts', async () => {
    const { tasks } = services();
    const { body: text } = await request(tasks);
    const [notice = ''] = /<noscript>.*<\/noscript>/s.exec(text) ?? [];
    for (const [, path = ''] of notice.matchAll(/href="([^"]+)"/g)) {
      expect((await request(tasks + path)).status, path).to.equal(200);
    }
    expect(notice).to.include('/tasks').and.include('/dead-letters');
  });
});
