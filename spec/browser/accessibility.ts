import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface AxeResults {
  violations: { id: string; nodes: { html: string; failureSummary: string }[] }[];
}

/** Returns axe-core's violations in the page's current state; empty if it finds none. */
export async function violations(page: Page): Promise<string[]> {
  // The source is sent to each document once.
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe);
  // @ts-expect-error: injected above
  const results: AxeResults = await page.evaluate(() => axe.run({ resultTypes: ['violations'], preload: false }));
  return results.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary}`),
  );
}
