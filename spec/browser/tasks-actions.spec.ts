import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { type RunningServices, startServices } from '../support/program.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';
import { describeInBrowser, part, reaches, visit } from './chromium.ts';

const handlers = `
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

const queueButton = (page: Page) => page.getByRole('button', { name: 'Queue task' });
const choice = (page: Page) => page.getByLabel('Action', { exact: true }).and(page.locator('select'));
const output = (page: Page, text: string) => page.locator('.own-output', { hasText: text }).waitFor();
const selected = (page: Page) =>
  page
    .locator('#json')
    .evaluate((field: HTMLTextAreaElement) => field.value.slice(field.selectionStart, field.selectionEnd));

/** Opens the form for other actions, once the actions are offered. */
async function openForm(page: Page): Promise<void> {
  await reaches(page, 'live');
  await page.getByLabel('other').check();
  await choice(page).waitFor();
}

describeInBrowser('the task board with a handlers module', () => {
  const start = async (env: Record<string, string> = {}) =>
    startServices({ env: { TASK_HANDLERS: await writeHandlers(handlers), ...env } });
  const services: () => RunningServices = onceForSuite(() => start());

  it('offers the actions, with a template and the fields of the data of one that has a schema', async () => {
    await visit(services().tasks, {}, async (page) => {
      await openForm(page);
      expect(await choice(page).locator('option').allTextContents()).to.deep.equal([
        'resize',
        'report',
        'another action',
      ]);
      expect(await page.locator('#json').inputValue()).to.equal(
        JSON.stringify({ width: 640, crops: [], quality: 80 }, null, 2),
      );
      expect(await part(page, 'choice-about').textContent()).to.equal('Resize a picture: Returns its new size.');
      const fields = (await page.locator('.data-field').allTextContents()).map((text) =>
        text.replace(/\s+/g, ' ').trim(),
      );
      expect(fields).to.deep.equal([
        'width integer, at least 1 required',
        'crops array of integer required',
        'quality integer, 1 to 100 required Quality: of the JPEG',
      ]);
      expect(await page.locator('.data-field strong:visible').count()).to.equal(2);
      await queueButton(page).click();
      await output(page, '1280');
    });
  });

  it('keeps the text of each action, and takes an action of any name', async () => {
    await visit(services().tasks, {}, async (page) => {
      await openForm(page);
      await page.locator('#json').fill('{"width": 7, "crops": []}');
      await choice(page).selectOption('report');
      expect(await page.locator('#json').inputValue()).to.equal('{}');
      expect(await page.locator('.data-field').count()).to.equal(0);
      await queueButton(page).click();
      await output(page, 'reported');
      await choice(page).selectOption('another action');
      await page.getByLabel('Name of the action').fill('anything');
      expect(await part(page, 'curl').first().textContent()).to.include('"action":"anything"');
      await queueButton(page).click();
      await output(page, 'processed');
      await choice(page).selectOption('resize');
      await queueButton(page).click();
      await output(page, '14');
    });
  });

  it('shows which part of the data the service refuses', async () => {
    await visit(services().tasks, { tolerated: /status of 400/ }, async (page) => {
      await openForm(page);
      const refusals: [data: string, message: string, part: string, field: string][] = [
        ['{"width": 5, "crops": [1, "x"]}', 'invalid data: /crops/1 must be integer', '"x"', 'crops'],
        ['{"width": 0, "crops": []}', 'invalid data: /width must be >= 1', '0', 'width'],
        ['{"crops": []}', 'invalid data: /width must be present', '{"crops": []}', 'width'],
      ];
      for (const [data, message, wrong, field] of refusals) {
        await page.locator('#json').fill(data);
        expect(await page.locator('[data-wrong]').count()).to.equal(0);
        await queueButton(page).click();
        await page.getByRole('alert').filter({ hasText: message }).waitFor();
        expect(await page.locator(':focus').getAttribute('aria-invalid')).to.equal('true');
        expect(await selected(page)).to.equal(wrong);
        expect(await page.locator('[data-wrong] [data-part="name"]').textContent()).to.equal(field);
      }
      expect(await page.locator('.own-task').count()).to.equal(0);
    });
  });

  it('offers no other action if the service refuses them, and no other form for an action with a schema', async () => {
    const TASK_HANDLERS = await writeHandlers(
      "export default { sum: { handler: () => 'own sum', schema: { type: 'object', required: ['a'], properties: { a: { const: 1 } } } } }",
    );
    const own = await start({ TASK_HANDLERS, TASK_UNKNOWN_ACTIONS: 'reject' });
    await visit(own.tasks, {}, async (page) => {
      await openForm(page);
      expect(await page.locator('.choice label:visible').allTextContents()).to.include.members(['uppercase', 'other']);
      expect(await page.getByLabel('sum', { exact: true }).isVisible()).to.equal(false);
      expect(await choice(page).locator('option').allTextContents()).to.deep.equal(['sum']);
      await queueButton(page).click();
      await output(page, 'own sum');
    });
    const none = await startServices({ env: { TASK_UNKNOWN_ACTIONS: 'reject' } });
    await visit(none.tasks, {}, async (page) => {
      await reaches(page, 'live');
      expect(await page.locator('.choice label:visible').allTextContents()).to.not.include('other');
    });
  });
});
