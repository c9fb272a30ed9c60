import { Agent, request as send } from 'node:http';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { describeInBrowser, part, partShows, reaches, visit } from './chromium.ts';

/** Number of tasks in the burst, and how many are queued each second. */
const TASKS = 1_500;
const TASKS_PER_SECOND = 500;
/** Maximum number of characters of the curl preview. */
const MAX_PREVIEW = 21_000;

/** What the page observes about itself. */
interface Observed {
  startedAt: number;
  /** Times at which the list was changed. */
  renderings: number[];
}

/** Starts to observe renderings in the page. */
function observe(page: Page) {
  return page.evaluateHandle((): Observed => {
    const observed: Observed = { startedAt: performance.now(), renderings: [] };
    const list = document.querySelector('[data-part="list"]') as HTMLElement;
    new MutationObserver(() => observed.renderings.push(performance.now())).observe(list, {
      ...{ childList: true, subtree: true, characterData: true },
    });
    return observed;
  });
}

/** Queues tasks at an even rate, over a few connections. */
async function queueMany(tasks: string): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const startedAt = performance.now();
  const queueOne = () =>
    new Promise<void>((resolve, reject) => {
      const request = send(`${tasks}/tasks`, { method: 'POST', agent }, (answer) => answer.resume().on('end', resolve));
      request.on('error', reject).end('{"action":"sum","data":{"numbers":[1,2]}}');
    });
  for (let sent = 0; sent < TASKS; ) {
    const due = Math.min(TASKS, Math.ceil(((performance.now() - startedAt) / 1000) * TASKS_PER_SECOND));
    await Promise.all(Array.from({ length: due - sent }, queueOne));
    sent = Math.max(sent, due);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  agent.destroy();
}

describeInBrowser('the task board under load', () => {
  const services = onceForSuite(startServices);

  it('renders at most ten times a second, takes input and requests few listings while 500 tasks a second are processed', async () => {
    const { tasks } = await startServices();
    await visit(tasks, {}, async (page) => {
      await reaches(page, 'live');
      let listings = 0;
      page.on('request', (request) => {
        if (new URL(request.url()).pathname === '/tasks/search') listings += 1;
      });
      const handle = await observe(page);
      let isOver = false;
      const load = queueMany(tasks).finally(() => {
        isOver = true;
      });
      await page.locator('#text').focus();
      while (!isOver) await page.keyboard.type('x', { delay: 50 });
      await load;
      await partShows(page, 'health-backlog', /^0$/);
      await eventually(
        () => page.evaluate(() => fetch('/queue').then((answer) => answer.json())),
        ({ completed }) => completed === TASKS,
      );
      const observed = await handle.jsonValue();
      const seconds = ((observed.renderings.at(-1) ?? 0) - observed.startedAt) / 1000;
      // The counts of the queue arrive once a second besides.
      expect(observed.renderings.length, `renderings in ${seconds} s`).to.be.within(5, seconds * 11 + 2);
      expect(listings, `listings in ${seconds} s`).to.be.at.most(seconds + 3);
      expect(await page.locator('#text').inputValue()).to.match(/x{10}/);
    });
  });

  it('shows only the start of the curl command while the user types behind a pasted megabyte, and copies it whole', async () => {
    const { tasks } = services();
    await visit(tasks, {}, async (page) => {
      const field = page.getByLabel('Text');
      await field.fill('x'.repeat(1_000_000));
      await page.getByRole('button', { name: 'Show all 1 MB' }).waitFor();
      await field.press('End');
      for (const key of 'typed') {
        await page.keyboard.press(key);
        expect((await part(page, 'curl').first().textContent())?.length).to.be.within(100, MAX_PREVIEW);
      }
      await page.locator('.request').getByRole('button', { name: 'Copy' }).click();
      await page.getByRole('button', { name: 'Copied' }).waitFor();
      const command = await page.evaluate(() => navigator.clipboard.readText());
      expect(command.length).to.be.above(1_000_000);
      expect(command).to.include('xtyped');
    });
  });
});
