import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { describeInBrowser, visit } from '../../browser/chromium.ts';
import { onceForSuite, temporaryFolder } from '../../support/cleanup.ts';
import { adapt, examples } from '../../support/examples.ts';
import { startServices } from '../../support/program.ts';
import { eventually } from '../../support/until.ts';

/** Opens the page of the guide and enters a key. */
async function open(services: Parameters<typeof adapt>[1], key: string, test: (page: Page) => Promise<void>) {
  const path = join(await temporaryFolder(), 'client.html');
  await writeFile(path, adapt(examples('www/guide/clients.md', 'Browser', 'html')[0], services));
  const prepare = async (page: Page) => {
    page.on('dialog', (dialog) => void dialog.accept(key));
  };
  await visit(`file://${path}`, { prepare, tolerated: /status of 40[01]/ }, test);
}

const until = (page: Page, expected: RegExp) =>
  eventually(
    () => page.textContent('#prices'),
    (text) => expected.test(text ?? ''),
  );

describeInBrowser('the browser client of the guide', () => {
  const running = onceForSuite(startServices);

  it('streams', async () => {
    await open(running(), running().apiKey, async (page) => {
      await until(page, /^BTC-USD [\d.]+\nETH-USD [\d.]+\nSOL-USD [\d.]+$/);
    });
  });

  for (const [what, key, reason] of [
    ['no key', '', '400 {"error":"api_key required"}'],
    ['an invalid key', 'none', '401 {"error":"invalid API key"}'],
  ] as const) {
    it(`stops with ${what} and says why`, async () => {
      await open(running(), key, async (page) => {
        expect((await until(page, /^stopped/))?.trim()).to.equal(`stopped: ${reason}`);
      });
    });
  }
});
