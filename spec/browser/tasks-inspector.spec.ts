import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { post } from '../support/program.ts';
import { describeInBrowser, part, partShows, visit } from './chromium.ts';
import { startWithHandlers, texts } from './task-rows.ts';

const HANDLERS = `
const untilAborted = (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
export default {
  echo: ({ text }) => text,
  breaks() { throw new PermanentError('always broken'); },
  crashes() { throw new TypeError('no text'); },
  tires() { throw new RetryAfter(1, 'try again'); },
  late() { throw new RetryAfter(90_000, 'much later'); },
  import: (_, { signal, progress }) => { progress(0.256, 'row 256 of 1000'); return untilAborted(signal); },
};`;

const inspector = (page: Page) => page.getByRole('dialog');
const state = (page: Page, name: string) => partShows(page, 'inspector-state', name);
const steps = (page: Page) => texts(page.locator('.step'));

describeInBrowser('the inspector of the task board', () => {
  const services = onceForSuite(() => startWithHandlers(HANDLERS));

  const submit = async (submission: object): Promise<string> =>
    (await post(`${services().tasks}/tasks`, submission)).body.id;

  /** Goes to the address of another task, as the Back button does. */
  const goTo = (page: Page, id: string) =>
    page.evaluate((task) => {
      history.pushState(null, '', `?task=${task}`);
      dispatchEvent(new PopStateEvent('popstate'));
    }, id);

  it('shows the timeline, payload and result of a task by its address, hands it to the form, redrives or cancels it, and says that an id is unknown', async () => {
    const id = await submit({ action: 'echo', data: { text: 'hello' } });
    const page = await visit(`${services().tasks}/?task=${id}`, { tolerated: /status of 404/ });
    await state(page, 'completed');
    expect(await part(page, 'inspector-title').textContent()).to.equal('echo');
    expect(await part(page, 'inspector-id').textContent()).to.equal(id);
    const [accepted, completed, ...others] = await steps(page);
    expect(accepted).to.match(/^Accepted \d\d:\d\d:\d\d/);
    expect(completed).to.match(/^Completed \d\d:\d\d:\d\d/);
    expect(others).to.deep.equal([]);
    expect(await part(page, 'tree').first().innerText()).to.match(/action: "echo"\ndata: \{1\}\ntext: "hello"/);
    const time = page.locator('.step time').last();
    expect(await time.getAttribute('title')).to.match(/^\w+, \d+ \w+ \d{4} at \d\d:\d\d:\d\d \S+/);
    await page.getByLabel('Time zone').selectOption('UTC');
    const utc = (await time.getAttribute('datetime'))?.slice(11, 23);
    await inspector(page).getByText(`${utc}`).first().waitFor();
    expect(await time.getAttribute('title')).to.match(/UTC$/);
    await page.reload();
    await inspector(page).getByText(`${utc}`).first().waitFor();
    await page.getByLabel('Time zone').selectOption('Local time');
    const text = async (name: string) => (await part(page, name).locator('pre').textContent()) ?? '';
    const json = async (name: string) => JSON.parse(await text(name));
    expect(await json('payload-text')).to.deep.include({ action: 'echo', data: { text: 'hello' } });
    expect(await json('result-text')).to.deep.equal({ output: 'hello' });
    expect(await text('curl-text')).to.include(`/tasks -d '{"action":"echo","data":{"text":"hello"}}'`);
    await page.keyboard.press('Escape');
    await inspector(page).waitFor({ state: 'hidden' });
    expect(page.url()).to.equal(`${services().tasks}/`);

    await goTo(page, id);
    await inspector(page).getByRole('button', { name: 'Edit and resubmit' }).click();
    await inspector(page).waitFor({ state: 'hidden' });
    expect(JSON.parse(await page.locator('#json').inputValue())).to.deep.equal({ text: 'hello' });
    expect(await page.locator('#choice').inputValue()).to.equal('echo');
    const difference = part(page, 'difference');
    expect(await difference.textContent()).to.equal('The same as the original task.');
    await page.locator('#json').fill('{"text": "bye", "more": null}');
    await page.getByText('Differs from the original task in /data/text, /data/more.').waitFor();
    await page.getByRole('button', { name: 'Queue task' }).click();
    await difference.waitFor({ state: 'detached' });

    const data = { text: 'x'.repeat(50_000) };
    await goTo(page, await submit({ action: 'echo', data }));
    await state(page, 'completed');
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: services().tasks });
    const payload = part(page, 'payload-text');
    expect(await text('payload-text')).to.have.length(20_001);
    await payload.getByText('JSON text').click();
    await inspector(page).getByRole('button', { name: 'Copy the payload' }).click();
    await payload.getByText('Copied').waitFor();
    expect(JSON.parse(await page.evaluate(() => navigator.clipboard.readText())).data).to.deep.equal(data);
    await payload.getByRole('button', { name: /^Show all/ }).click();
    expect((await json('payload-text')).data).to.deep.equal(data);

    await goTo(page, await submit({ action: 'tires' }));
    await state(page, 'failed');
    const attempts = await steps(page);
    expect(attempts).to.have.length(7);
    expect(attempts[1]).to.match(/^Attempt 1 failed [\d:.]{12} .*started [\d:.]{12}, took (< 1|[\d.]+) m?s try again$/);
    expect(attempts[5]).to.match(/^Attempt 5 failed .* \+.* m?s started .*, took .* m?s try again$/);
    expect(attempts[6]).to.match(/^Failed, no attempts left/);
    const redriven = page.waitForResponse((response) => response.url().endsWith('/redrive'));
    await inspector(page).getByRole('button', { name: 'Redrive' }).click();
    expect((await (await redriven).json()).count).to.equal(1);
    await state(page, 'failed');

    await goTo(page, await submit({ action: 'breaks' }));
    await page.getByText('This error is permanent: after a redrive the task fails again').waitFor();
    expect((await steps(page)).at(-1)).to.match(/^Failed permanently/);

    await goTo(page, await submit({ action: 'crashes' }));
    const stack = part(page, 'step-stack').filter({ hasText: 'TypeError' });
    expect(await stack.textContent()).to.match(/^TypeError\n {4}at .*handlers\.ts:\d+:\d+/);

    await goTo(page, await submit({ action: 'late' }));
    const cancel = async () => {
      const answered = page.waitForResponse((response) => response.request().method() === 'DELETE');
      await inspector(page).getByRole('button', { name: 'Cancel' }).click();
      return (await answered).status();
    };
    await state(page, 'retrying');
    const countdown = page.locator('.step').last().locator('[data-part="step-live"]');
    expect(await countdown.textContent()).to.match(/^in \d\d s$/);
    expect(await cancel()).to.equal(204);
    await state(page, 'cancelled');
    expect((await steps(page)).at(-1)).to.match(/^Cancelled/);
    expect(await part(page, 'inspector-error').textContent()).to.equal('');

    await goTo(page, await submit({ action: 'import' }));
    await state(page, 'running');
    await inspector(page).getByText('25 %').waitFor();
    await inspector(page).getByText('row 256 of 1000').waitFor();
    expect((await steps(page)).at(-1)).to.match(/^Attempt 1 started for (< )?\d/);
    expect(await cancel()).to.equal(202);
    await state(page, 'cancelled');
    await inspector(page).getByRole('progressbar').waitFor({ state: 'detached' });

    await goTo(page, 'nobody');
    await page.getByText('No task has this id.').waitFor();
  });
});
