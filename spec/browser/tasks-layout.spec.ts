import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { post, request, startServices } from '../support/program.ts';
import { violations } from './accessibility.ts';
import { describeInBrowser, part, reaches, visit } from './chromium.ts';

const overflow = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
const top = (page: Page, name: string) => part(page, name).evaluate((element) => element.getBoundingClientRect().top);

interface Shift extends PerformanceEntry {
  value: number;
}

/** Sums up the layout shifts of a page from its start, in `window.shifts`. */
async function observeShifts(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const total = { value: 0 };
    Object.assign(window, { shifts: total });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) total.value += (entry as Shift).value;
    }).observe({ type: 'layout-shift', buffered: true });
  });
}

describeInBrowser('the layout of the task board', () => {
  const services = onceForSuite(async () => {
    const started = await startServices();
    for (let i = 0; i < 100; i++) await post(`${started.tasks}/tasks`, { action: `action-${i}` });
    await post(`${started.tasks}/tasks`, { action: 'W'.repeat(200), data: { text: 'W'.repeat(300) } });
    return started;
  });

  it('moves nothing while 100 rows load, and keeps the buttons of the list in one line', async () => {
    await visit(services().tasks, { prepare: observeShifts }, async (page) => {
      await page.locator('.task-row').nth(99).waitFor();
      await part(page, 'count-completed').filter({ hasText: '101' }).waitFor();
      const shifts = await page.evaluate(() => (window as never as { shifts: { value: number } }).shifts.value);
      expect(shifts).to.be.below(0.02);
      const [find, pause] = [await top(page, 'find'), await top(page, 'pause')];
      expect(Math.abs(find - pause)).to.be.below(20);
    });
  });

  it('shows health, charts, tabs and the first rows at once on a laptop, with the form beside them', async () => {
    await visit(services().tasks, { width: 1280, height: 800 }, async (page) => {
      await page.locator('.task-row').first().waitFor();
      const tops = [];
      for (const name of ['health', 'tabs', 'find', 'task-rows']) tops.push(await top(page, name));
      expect(tops).to.deep.equal([...tops].sort((one, other) => one - other));
      const fifth = await page.locator('.task-row').nth(4).boundingBox();
      expect(fifth?.y).to.be.below(770);
      const form = await part(page, 'submit-form').boundingBox();
      const list = await part(page, 'list').boundingBox();
      expect(form?.x).to.be.above((list?.x ?? 0) + (list?.width ?? 0));
      expect(await part(page, 'to-form').isVisible()).to.equal(false);
    });
  });

  it('puts the list before the form on a small screen, with a button that leads to the form', async () => {
    await visit(services().tasks, { width: 320, height: 640 }, async (page) => {
      await page.locator('.task-row').first().waitFor();
      expect(await top(page, 'task-rows')).to.be.below(await top(page, 'submit-form'));
      await page.getByRole('link', { name: 'Queue a task' }).click();
      expect(await page.evaluate(() => document.activeElement?.id)).to.equal('text');
      expect(await top(page, 'submit-form')).to.be.within(0, 640);
    });
  });

  for (const width of [320, 768, 1280, 2560]) {
    it(`does not scroll sideways at ${width} pixels, with an action of 200 characters and text of twice the size`, async () => {
      await visit(services().tasks, { width }, async (page) => {
        await page.locator('.task-row').first().waitFor();
        expect(await overflow(page)).to.be.at.most(0);
        await page.evaluate(() => {
          const { fontSize } = getComputedStyle(document.documentElement);
          document.documentElement.style.fontSize = `calc(2 * ${fontSize})`;
        });
        expect(await overflow(page)).to.be.at.most(0);
        for (const state of ['queued', 'failed']) {
          await page.goto(`${services().tasks}/?state=${state}`);
          await reaches(page, 'live');
          expect(await overflow(page), state).to.be.at.most(0);
        }
      });
    });
  }

  it('tells states and the current tab apart in forced colours, and stands still with reduced motion', async () => {
    await visit(services().tasks, {}, async (page) => {
      await page.locator('.task-row').first().waitFor();
      await page.emulateMedia({ forcedColors: 'active', reducedMotion: 'reduce' });
      const marks = await page.locator('.tab .mark').evaluateAll((all) =>
        all.map((mark) => {
          const { borderWidth, borderStyle, borderRadius, clipPath, rotate } = getComputedStyle(mark);
          return [borderWidth, borderStyle, borderRadius, clipPath, rotate].join(' ');
        }),
      );
      expect(new Set(marks).size).to.equal(6);
      const borders = await page
        .locator('.tab')
        .evaluateAll((all) => all.map((tab) => getComputedStyle(tab).borderTopColor));
      expect(borders[4]).to.not.equal(borders[0]);
      expect(await page.evaluate(() => document.getAnimations().length)).to.equal(0);
      expect(await violations(page)).to.deep.equal([]);
    });
  });

  it('prints the list without forms and buttons', async () => {
    await visit(services().tasks, {}, async (page) => {
      await page.locator('.task-row').first().waitFor();
      await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
      expect(await part(page, 'task-rows').isVisible()).to.equal(true);
      for (const name of ['submit-form', 'find', 'pause']) expect(await part(page, name).isVisible()).to.equal(false);
      const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      expect(ground).to.match(/rgb\(2\d\d, 2\d\d, 2\d\d\)/);
    });
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
