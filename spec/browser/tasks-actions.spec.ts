import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { eventually } from '../support/until.ts';
import { describeInBrowser, part, reaches, visit } from './chromium.ts';
import { actionChoice, queueButton, startWithHandlers } from './task-rows.ts';

const HANDLERS = `
const schema = {
  title: 'Resize a picture', description: 'Returns its new size.', type: 'object', required: ['width', 'crops'], additionalProperties: false,
  properties: {
    quality: { type: 'integer', minimum: 1, maximum: 100, default: 80, title: 'Quality', description: 'of the JPEG' },
    width: { type: 'integer', minimum: 1, examples: [640] },
    crops: { type: 'array', items: { type: 'integer' } },
  },
};
export default {
  resize: { handler: ({ width }) => width * 2, schema },
  report: () => 'reported',
};`;

const output = (page: Page, text: string) => page.locator('.own-output', { hasText: text }).waitFor();
const selected = (page: Page) =>
  page
    .locator('#json')
    .evaluate((field: HTMLTextAreaElement) => field.value.slice(field.selectionStart, field.selectionEnd));

/** Opens the form for other actions, once the actions are offered. */
async function openForm(page: Page): Promise<void> {
  await reaches(page, 'live');
  await page.getByLabel('other').check();
  await actionChoice(page).waitFor();
}

describeInBrowser('the task board with a handlers module', () => {
  const services = onceForSuite(() => startWithHandlers(HANDLERS, { TASK_UNKNOWN_ACTIONS: 'process' }));

  it('offers the actions with templates and fields of their data, keeps their texts over a reload, and shows what the service refuses', async () => {
    const page = await visit(services().tasks, { tolerated: /status of 400/ });
    await openForm(page);
    expect(await actionChoice(page).locator('option').allTextContents()).to.deep.equal([
      'resize',
      'report',
      'another action',
    ]);
    expect(await page.locator('#json').inputValue()).to.equal(
      JSON.stringify({ width: 640, crops: [], quality: 80 }, null, 2),
    );
    expect(await page.locator('#choice-hint').textContent()).to.equal('Resize a picture: Returns its new size.');
    const field = await page.locator('.data-field').nth(2).textContent();
    expect(field).to.match(/^\s*quality\s+integer, 1 to 100\s+Quality: of the JPEG\s*$/);
    await queueButton(page).click();
    await output(page, '1280');

    await page.locator('#json').fill('{"width": 7, "crops": []}');
    await actionChoice(page).selectOption('report');
    expect(await page.locator('#json').inputValue()).to.equal('{}');
    expect(await page.locator('.data-field').count()).to.equal(0);
    await queueButton(page).click();
    await output(page, 'reported');
    await actionChoice(page).selectOption('another action');
    await page.getByLabel('Name of the action').fill('anything');
    expect(await part(page, 'curl').first().textContent()).to.include('"action":"anything"');
    await queueButton(page).click();
    await output(page, 'processed');
    await actionChoice(page).selectOption('resize');
    await queueButton(page).click();
    await output(page, '14');
    await page.reload();
    await actionChoice(page).waitFor();
    await queueButton(page).click();
    await output(page, '14');

    for (const [data, message, wrong, field] of [
      ['{"width": 5, "crops": [1, "x"]}', 'invalid data: /crops/1 must be integer', '"x"', 'crops'],
      ['{"crops": []}', 'invalid data: /width must be present', '{"crops": []}', 'width'],
    ] as const) {
      await page.locator('#json').fill(data);
      expect(await page.locator('[data-wrong]').count()).to.equal(0);
      await queueButton(page).click();
      await page.getByRole('alert').filter({ hasText: message }).waitFor();
      expect(await page.locator(':focus').getAttribute('aria-invalid')).to.equal('true');
      expect(await selected(page)).to.equal(wrong);
      expect(await page.locator('[data-wrong] code').textContent()).to.equal(field);
    }

    let actions: object[] = [{ name: 'uppercase' }, { name: 'sum', schema: {} }];
    await page.route('**/actions', (route) => route.fulfill({ json: { actions, unknown_actions: 'reject' } }));
    await page.reload();
    const offers = (kinds: string) =>
      eventually(
        () => page.locator('form .choice label').allTextContents(),
        (found) => found.map((text) => text.trim()).join() === kinds,
      );
    await offers('uppercase,other');
    await page.getByLabel('other').check();
    expect(await page.locator('#choice option').allTextContents()).to.deep.equal(['sum']);
    actions = [{ name: 'uppercase' }, { name: 'sum' }];
    await page.reload();
    await offers('uppercase,sum');
    expect(await page.locator('#choice option').count()).to.equal(0);
  });
});
