import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { describeInBrowser, LOST, visit } from '../../browser/chromium.ts';
import { adapt, examples, paste, projectWith } from '../../support/examples.ts';
import { freePort } from '../../support/free-port.ts';
import { type RunningServices, startServices, untilServed, watch } from '../../support/program.ts';
import { until } from '../../support/until.ts';

const [client = ''] = examples('www/guide/clients.md', 'Browser', 'html');

async function open(services: RunningServices, key: string): Promise<Page> {
  const path = join(await projectWith({ 'client.html': adapt(client, services) }), 'client.html');
  const prepare = async (page: Page) => {
    page.on('dialog', (dialog) => void dialog.accept(key));
  };
  const tolerated = new RegExp(`${LOST.source}|^ServiceError: invalid API key$`);
  return visit(`file://${path}`, { prepare, tolerated });
}

const shows = (page: Page, selector: string, expected: RegExp) =>
  until(async () => expected.test((await page.textContent(selector)) ?? ''));

describeInBrowser('the page of the guide', () => {
  it('streams two symbols in at most 15 lines, survives a restart of the server, and says that a key is invalid', async () => {
    expect(client.trimEnd().split('\n').length).to.be.at.most(15);
    const before = await startServices();
    await shows(await open(before, 'none'), 'title', /^stopped invalid API key$/);
    const page = await open(before, before.apiKey);
    await shows(page, '#prices', /^BTC-USD [\d.]+\nETH-USD [\d.]+$/);
    await before.end('SIGKILL');
    await shows(page, 'title', /^offline closed with code 1006$|^offline the service cannot be reached$/);
    const prices = await page.textContent('#prices');
    await startServices({ env: { ...before.env, TICKER_PORT: new URL(before.ticker).port } });
    await shows(page, 'title', /^live $/);
    await until(async () => (await page.textContent('#prices')) !== prices);
  });

  it('lets a visitor start a task and see its progress and result, in at most 40 lines', async () => {
    const [program = ''] = examples('www/guide/clients.md', 'A page for visitors', 'js');
    expect(program.trimEnd().split('\n').length).to.be.at.most(40);
    const port = await freePort();
    const module = `
      import { existsSync } from 'node:fs';
      import { setTimeout } from 'node:timers/promises';
      export default {
        async uppercase({ text }, { progress }) {
          progress(0.5);
          while (!existsSync(new URL('seen', import.meta.url))) await setTimeout(20);
          return text.toUpperCase();
        },
      };`;
    const folder = await projectWith({ 'handlers.mjs': module });
    const TASK_HANDLERS = join(folder, 'handlers.mjs');
    const CORS_ORIGINS = `http://localhost:${port}`;
    const services = await startServices({ env: { TASKS_REQUIRE_TOKEN: 'true', CORS_ORIGINS, TASK_HANDLERS } });
    await writeFile(join(folder, 'client.mjs'), await (await fetch(`${services.tasks}/client.js`)).text());
    await writeFile(join(folder, 'visitors.mjs'), adapt(program, services).replace('8000', String(port)));
    watch(paste(`exec ${process.execPath} ${join(folder, 'visitors.mjs')}`, { API_KEY: services.apiKey }));
    await untilServed(CORS_ORIGINS);
    const page = await visit(CORS_ORIGINS);
    const seen = page.waitForFunction(() => document.querySelector('progress')?.value === 0.5);
    await page.fill('input', 'straße');
    await page.click('button');
    await seen;
    await writeFile(join(folder, 'seen'), '');
    await shows(page, 'output', /^STRASSE$/);
  });
});
