import { expect } from 'chai';
import type { BrowserContext, Page, Request } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { runCommand } from '../support/command.ts';
import { post, request, startServices } from '../support/program.ts';
import { eventually, until } from '../support/until.ts';
import { describeInBrowser, LOST, type VisitOptions, visit } from './chromium.ts';
import { enterKey, noteStates, part, reaches } from './page.ts';
import { ownTask, queueButton, row } from './task-rows.ts';

function followStreams(context: BrowserContext) {
  const requests: Request[] = [];
  const ended = new Set<Request>();
  context.on('request', (request) => {
    if (request.url().endsWith('/tasks/events')) requests.push(request);
  });
  context.on('requestfailed', (request) => ended.add(request));
  context.on('requestfinished', (request) => ended.add(request));
  const open = () => requests.filter((request) => !ended.has(request));
  const holders = () =>
    open()
      .map((each) => each.frame().page())
      .filter((page) => !page.isClosed());
  const heldBy = (...tabs: Page[]) =>
    eventually(holders, (found) => found.length === tabs.length && tabs.every((tab) => found.includes(tab)));
  return { requests, holders, heldBy };
}

/** Slows the clock of all pages a hundredfold and disables `AbortSignal.timeout()`, so that none times out. */
const allowSlowness = (context: BrowserContext) =>
  context.addInitScript(() => {
    const { now } = performance;
    performance.now = () => now.call(performance) / 100;
    AbortSignal.timeout = () => new AbortController().signal;
  });

/** Opens a page in a browser context of its own, whose streams are followed from the start. */
async function openTab(url: string, prepare?: typeof allowSlowness, options?: VisitOptions) {
  const page = await visit('about:blank', { ownContext: true, ...options });
  await prepare?.(page.context());
  const streams = followStreams(page.context());
  await page.goto(url);
  return { page, streams };
}

async function openAnother(page: Page): Promise<Page> {
  const tab = await page.context().newPage();
  await tab.goto(page.url());
  await reaches(tab, 'live');
  return tab;
}

/** Makes a tab hidden or visible to its scripts. Playwright keeps all pages visible, so the property is replaced. */
const show = (page: Page, state: 'visible' | 'hidden') =>
  page.evaluate((value) => {
    Object.defineProperty(document, 'visibilityState', { configurable: true, value });
    document.dispatchEvent(new Event('visibilitychange'));
  }, state);

const keyField = (page: Page) => page.getByLabel('API key', { exact: true });
const stored = (page: Page) => page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }]));
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
const revoke = (service: string, token: string) =>
  request(`${service}/auth/token`, { method: 'DELETE', headers: bearer(token) });

describeInBrowser('tabs of the task board', () => {
  const services = onceForSuite(startServices);

  async function reachesTabs(action: string, ...tabs: Page[]): Promise<void> {
    await post(`${services().tasks}/tasks`, { action });
    for (const tab of tabs) await row(tab, action).waitFor();
  }

  it('share one event stream, hand it over when hidden, close it when all are hidden, and continue that of a closed tab without a gap', async () => {
    const { page, streams } = await openTab(services().tasks, allowSlowness);
    await streams.heldBy(page);
    const others = [await openAnother(page), await openAnother(page)];
    const all = [page, ...others];
    await streams.heldBy(page);
    await reachesTabs('for-all-tabs', ...all);
    expect(streams.requests).to.have.length(1);
    await show(page, 'hidden');
    await eventually(streams.holders, ([holder]) => holder !== undefined && holder !== page);
    const [holder] = streams.holders();
    // A tab that is shown again gets the tasks from the tab that holds the stream.
    await show(page, 'visible');
    await reachesTabs('handed-over', ...all);
    expect(streams.holders()).to.deep.equal([holder]);
    for (const tab of all) await show(tab, 'hidden');
    await streams.heldBy();
    // Once these are answered, each tab has told of its earlier requests.
    for (const tab of all) await tab.evaluate(async () => void (await fetch('/icon.svg')));
    let requests = 0;
    page.context().on('request', () => requests++);
    await reachesTabs('unseen');
    expect(requests).to.equal(0);
    await show(page, 'visible');
    await row(page, 'unseen').waitFor();
    await streams.heldBy(page);
    for (const tab of others) await show(tab, 'visible');
    for (const tab of others) await row(tab, 'unseen').waitFor();
    const states = await Promise.all(others.map(noteStates));
    await page.close();
    await reachesTabs('after-closing', ...others);
    for (const seen of states) expect(await seen()).to.deep.equal(['live']);
    expect(streams.holders()).to.have.length(1);
    expect(streams.requests.at(-1)?.headers()).to.have.property('last-event-id');
  });

  it('hand the stream over when silent, keep a page in the back/forward cache disconnected, and each have a stream where the browser offers no Web Locks, as without HTTPS', async () => {
    const { tasks } = services();
    const { page, streams } = await openTab(tasks);
    await streams.heldBy(page);
    await page.goto(`${tasks}/actions`);
    await streams.heldBy();
    await reachesTabs('while-away');
    await page.evaluate(() => history.back());
    await row(page, 'while-away').waitFor();
    await streams.heldBy(page);
    const other = await openAnother(page);
    await page.evaluate(() => {
      BroadcastChannel.prototype.postMessage = () => {};
    });
    await streams.heldBy(other);
    await reachesTabs('taken-over', page, other);
    for (const tab of [page, other]) await reaches(tab, 'live');
    const withoutLocks = () => Object.defineProperty(Navigator.prototype, 'locks', { value: undefined });
    await page.context().addInitScript(withoutLocks);
    for (const tab of [page, other]) await tab.reload();
    await streams.heldBy(page, other);
    await reachesTabs('without-locks', page, other);
  });
});

describeInBrowser('the task board with TASKS_REQUIRE_TOKEN', () => {
  it('shows the tasks as long as it has a valid token, which it keeps for reloads of this tab only if the box is checked', async () => {
    const { tasks, apiKey, token, lines } = await startServices({ env: { TASKS_REQUIRE_TOKEN: 'true' } });
    const page = await visit(tasks, { tolerated: LOST });
    const keep = async () => {
      const box = page.getByLabel('Keep me signed in');
      expect(await box.isChecked(), 'off by default').to.equal(false);
      await box.check();
      return enterKey(page, apiKey);
    };
    await reaches(page, 'signed-out');
    expect(await queueButton(page).isVisible()).to.equal(false);
    expect(await part(page, 'sign-in-reason').isVisible()).to.equal(false);
    const first = await enterKey(page, apiKey);
    expect(await stored(page)).to.equal('[{},{}]');
    expect(await part(page, 'curl').first().textContent()).to.include('-H "Authorization: Bearer $TOKEN"');
    await queueButton(page).click();
    await ownTask(page, 'completed').waitFor();
    const body = '{"action":"of-another-client"}';
    await request(`${tasks}/tasks`, { method: 'POST', headers: bearer(await token()), body });
    await row(page, 'of-another-client').waitFor();
    await page.getByLabel('Text').fill('a draft');
    await revoke(tasks, first);
    await page.getByText('Your session has ended.').waitFor();
    expect(await queueButton(page).isVisible()).to.equal(false);
    await enterKey(page, apiKey);
    expect(await page.getByLabel('Text').inputValue()).to.equal('a draft');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await reaches(page, 'signed-out');
    expect(await page.locator('.task-row').count()).to.equal(0);
    expect(JSON.stringify(lines)).to.not.include('v3.local.');
    expect(await page.locator('#keep-hint').textContent()).to.include('sessionStorage');
    const kept = await keep();
    expect(await stored(page))
      .to.include(kept)
      .and.not.include(apiKey);
    const refused: string[] = [];
    page.on('response', (response) => {
      if (response.status() === 401) refused.push(response.url());
    });
    await page.reload();
    await reaches(page, 'live');
    expect(refused, 'requests without the kept token').to.deep.equal([]);
    expect(await keyField(page).isVisible()).to.equal(false);
    expect(await part(page, 'sign-out').textContent()).to.equal('Sign out demo');
    const tab = await page.context().newPage();
    await tab.goto(tasks);
    await keyField(tab).waitFor();
    await tab.close();

    await page.getByRole('button', { name: 'Sign out' }).click();
    await keyField(page).waitFor();
    expect(await stored(page)).to.equal('[{},{}]');
    await until(async () => (await request(`${tasks}/tasks`, { headers: bearer(kept) })).status === 401);
    await page.reload();

    const second = await keep();
    await page.goto('about:blank');
    await revoke(tasks, second);
    await page.goto(tasks);
    await page.getByText('Your session has ended').waitFor();
    expect(await stored(page)).to.equal('[{},{}]');

    await keep();
    await page.evaluate(() => {
      const session = JSON.parse(sessionStorage.getItem('session') ?? '');
      sessionStorage.setItem('session', JSON.stringify({ ...session, expiresAt: Date.now() - 1 }));
    });
    await page.reload();
    await keyField(page).waitFor();
    expect(await stored(page)).to.equal('[{},{}]');

    await page.route('**/queue', (route) => route.fulfill({ status: 401, json: { error: 'unauthorized' } }));
    for (const _ of [1, 2]) {
      await keyField(page).fill(apiKey);
      const refused = page.waitForResponse((response) => response.url().endsWith('/queue'));
      await page.keyboard.press('Enter');
      await refused;
      await page.getByText('Your session has ended.').waitFor();
    }
  });

  it('has tabs that share a stream only with the same user, and go on when the token of the tab that holds it is revoked', async () => {
    const { tasks, apiKey, env } = await startServices({ env: { TASKS_REQUIRE_TOKEN: 'true' } });
    const { stdout } = await runCommand('keys', ['create', '--user', 'alice'], { dataDir: env.DATA_DIR });
    const { page: first, streams } = await openTab(tasks, allowSlowness, { tolerated: LOST });
    const context = first.context();
    const [second, stranger] = [await context.newPage(), await context.newPage()];
    for (const page of [second, stranger]) await page.goto(tasks);
    const token = await enterKey(first, apiKey);
    await streams.heldBy(first);
    const secondToken = await enterKey(second, apiKey);
    await enterKey(stranger, stdout.trim());
    await streams.heldBy(first, stranger);
    const queue = (action: string) =>
      request(`${tasks}/tasks`, { method: 'POST', headers: bearer(secondToken), body: JSON.stringify({ action }) });
    await queue('signed-in');
    for (const page of [first, second, stranger]) await row(page, 'signed-in').waitFor();

    const states = await noteStates(second);
    await revoke(tasks, token);
    await first.getByText('Your session has ended.').waitFor();
    await queue('taken-over');
    await row(second, 'taken-over').waitFor();
    expect(await states()).to.deep.equal(['live']);
    expect(streams.holders()).to.have.members([second, stranger]);

    // The tab that does not hold a stream notices that its own token is revoked.
    await revoke(tasks, await enterKey(first, apiKey));
    await first.getByText('Your session has ended.').waitFor();
  });
});
