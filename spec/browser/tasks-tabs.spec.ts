import { expect } from 'chai';
import type { BrowserContext, Page, Request } from 'playwright-core';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { runCommand } from '../support/command.ts';
import { post, request, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { describeInBrowser, enterKey, LOST, noteStates, reaches, visit } from './chromium.ts';
import { lists } from './task-rows.ts';

/** Event streams that the tabs of a browser context have requested. */
interface FollowedStreams {
  /** Every request of the stream, in order. */
  requests: Request[];
  /** Returns the tabs that hold a stream. */
  holders(): Page[];
  /** Waits until exactly the tab `page` holds a stream, or no tab if it is undefined. */
  heldBy(page: Page | undefined): Promise<unknown>;
}

/** Follows the event streams of all tabs in a browser context. */
function followStreams(context: BrowserContext): FollowedStreams {
  const requests: Request[] = [];
  const open = new Set<Request>();
  context.on('request', (request) => {
    if (!request.url().endsWith('/tasks/events')) return;
    requests.push(request);
    open.add(request);
  });
  context.on('requestfailed', (request) => open.delete(request));
  context.on('requestfinished', (request) => open.delete(request));
  const holders = () => [...open].map((each) => each.frame().page()).filter((page) => !page.isClosed());
  return {
    requests,
    holders,
    heldBy: (page) =>
      eventually(holders, (found) =>
        page === undefined ? found.length === 0 : found.length === 1 && found[0] === page,
      ),
  };
}

/**
 * Slows `performance.now()` a hundredfold and disables `AbortSignal.timeout()`, so that no page of a context times out on a
 * slow machine. Retries and the detection of a silent tab are slow as well.
 */
const allowSlowness = (context: BrowserContext) =>
  context.addInitScript(() => {
    const { now } = performance;
    performance.now = () => now.call(performance) / 100;
    AbortSignal.timeout = () => new AbortController().signal;
  });

/** Opens more tabs with a page's address in its context, and waits until they are live. */
async function openTabs(page: Page, number: number): Promise<Page[]> {
  const tabs: Page[] = [];
  for (let i = 0; i < number; i++) {
    const tab = await page.context().newPage();
    await tab.goto(page.url());
    tabs.push(tab);
  }
  for (const tab of tabs) await reaches(tab, 'live');
  return tabs;
}

/** Makes a tab hidden or visible to its scripts. Playwright keeps all pages visible, so the property is replaced. */
async function setVisible(page: Page, visible: boolean): Promise<void> {
  await page.evaluate(
    (state) => {
      Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => state });
      document.dispatchEvent(new Event('visibilitychange'));
    },
    visible ? 'visible' : 'hidden',
  );
}

describeInBrowser('tabs of the task board', () => {
  const services = onceForSuite(startServices);

  /** Visits the board in a browser context of its own, whose streams are followed from the start. */
  const visitTab = async (
    test: (page: Page, streams: FollowedStreams, tasks: string) => Promise<void>,
    prepareContext?: typeof allowSlowness,
  ) => {
    const { tasks } = services();
    const followed = Promise.withResolvers<FollowedStreams>();
    const prepare = async (page: Page) => {
      await prepareContext?.(page.context());
      followed.resolve(followStreams(page.context()));
    };
    const page = await visit(tasks, { ownContext: true, prepare });
    const streams = await followed.promise;
    await streams.heldBy(page);
    await test(page, streams, tasks);
  };

  it('share one event stream, hand it over when hidden, close it when all are hidden, and continue that of a closed tab without a gap', async () => {
    await visitTab(async (page, streams, tasks) => {
      const others = await openTabs(page, 2);
      await streams.heldBy(page);
      await post(`${tasks}/tasks`, { action: 'for-all-tabs' });
      for (const tab of [page, ...others]) await lists(tab, 'for-all-tabs');
      expect(streams.requests).to.have.length(1);

      await setVisible(page, false);
      await eventually(streams.holders, ([holder]) => holder !== undefined && holder !== page);
      const [holder] = streams.holders();
      // A tab that is shown again gets the tasks from the tab that holds the stream.
      await setVisible(page, true);
      await post(`${tasks}/tasks`, { action: 'handed-over' });
      for (const tab of [page, ...others]) await lists(tab, 'handed-over');
      expect(streams.holders()).to.deep.equal([holder]);

      for (const tab of [page, ...others]) await setVisible(tab, false);
      await streams.heldBy(undefined);
      // Once these are answered, each tab has told of its earlier requests.
      for (const tab of [page, ...others]) await tab.evaluate(async () => void (await fetch('/icon.svg')));
      let requests = 0;
      page.context().on('request', () => requests++);
      await post(`${tasks}/tasks`, { action: 'unseen' });
      expect(requests).to.equal(0);
      await setVisible(page, true);
      await lists(page, 'unseen');
      await streams.heldBy(page);

      for (const tab of others) await setVisible(tab, true);
      for (const tab of others) await lists(tab, 'unseen');
      const states = await Promise.all(others.map(noteStates));
      await page.close();
      await post(`${tasks}/tasks`, { action: 'after-closing' });
      for (const tab of others) await lists(tab, 'after-closing');
      for (const seen of states) expect(await seen()).to.deep.equal(['live']);
      expect(streams.holders()).to.have.length(1);
      expect(streams.requests.at(-1)?.headers()).to.have.property('last-event-id');
    }, allowSlowness);
  });

  it('hand the stream over when silent, keep a page in the back/forward cache disconnected, and each have a stream where the browser offers no Web Locks, as without HTTPS', async () => {
    await visitTab(async (page, streams, tasks) => {
      await page.goto(`${tasks}/actions`);
      await streams.heldBy(undefined);
      await post(`${tasks}/tasks`, { action: 'while-away' });
      await page.evaluate(() => history.back());
      await lists(page, 'while-away');
      await streams.heldBy(page);

      const [other] = (await openTabs(page, 1)) as [Page];
      await page.evaluate(() => {
        BroadcastChannel.prototype.postMessage = () => {};
      });
      await streams.heldBy(other);
      await post(`${tasks}/tasks`, { action: 'taken-over' });
      for (const tab of [page, other]) {
        await lists(tab, 'taken-over');
        await reaches(tab, 'live');
      }

      await page
        .context()
        .addInitScript(() => Object.defineProperty(Navigator.prototype, 'locks', { value: undefined }));
      for (const tab of [page, other]) await tab.reload();
      await eventually(streams.holders, (found) => found.length === 2);
      await post(`${tasks}/tasks`, { action: 'without-locks' });
      for (const tab of [page, other]) await lists(tab, 'without-locks');
    });
  });
});

describeInBrowser('tabs of the task board with TASKS_REQUIRE_TOKEN', () => {
  it('share a stream only with the same user, and go on when the token of the tab that holds it is revoked', async () => {
    const DATA_DIR = await temporaryFolder();
    const { tasks, apiKey } = await startServices({ env: { DATA_DIR, TASKS_REQUIRE_TOKEN: 'true' } });
    const { stdout } = await runCommand('keys', ['create', '--user', 'alice'], { dataDir: DATA_DIR });
    const prepare = (page: Page) => allowSlowness(page.context());
    const first = await visit(tasks, { ownContext: true, prepare, tolerated: LOST });
    const context = first.context();
    const streams = followStreams(context);
    const [second, stranger] = [await context.newPage(), await context.newPage()];
    for (const page of [second, stranger]) await page.goto(tasks);
    const token = await enterKey(first, apiKey);
    await streams.heldBy(first);
    const secondToken = await enterKey(second, apiKey);
    await enterKey(stranger, stdout.trim());
    await eventually(streams.holders, (found) => found.length === 2);
    expect(streams.holders()).to.deep.equal([first, stranger]);
    const headers = { Authorization: `Bearer ${secondToken}` };
    const queue = (action: string) =>
      request(`${tasks}/tasks`, { method: 'POST', headers, body: JSON.stringify({ action }) });
    await queue('signed-in');
    for (const page of [first, second, stranger]) await lists(page, 'signed-in');

    const states = await noteStates(second);
    await request(`${tasks}/auth/token`, { method: 'DELETE', headers: { Authorization: `Bearer ${token}` } });
    await first.getByText('Your session has ended.').waitFor();
    await queue('taken-over');
    await lists(second, 'taken-over');
    expect(await states()).to.deep.equal(['live']);
    expect(streams.holders()).to.have.members([second, stranger]);

    // The tab that does not hold a stream notices that its own token is revoked.
    const thirdToken = await enterKey(first, apiKey);
    await request(`${tasks}/auth/token`, { method: 'DELETE', headers: { Authorization: `Bearer ${thirdToken}` } });
    await first.getByText('Your session has ended.').waitFor();
  });
});
