import type { Locator, Page } from 'playwright-core';
import { startServices, untilAnswer } from '../support/program.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';
import { partShows } from './page.ts';

export const startWithHandlers = async (source: string, env: Record<string, string> = {}) =>
  startServices({ env: { TASK_HANDLERS: await writeHandlers(source), ...env } });

export const rows = (page: Page): Locator => page.locator('.task-row');

export const untilRows = (page: Page, count: number) =>
  page.waitForFunction((wanted) => document.querySelectorAll('.task-row').length === wanted, count);

export async function fill(form: Locator | Page, fields: Record<string, string>): Promise<void> {
  for (const [label, text] of Object.entries(fields)) await form.getByLabel(label, { exact: true }).fill(text);
}

export async function partsShow(page: Page, texts: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(texts)) await partShows(page, name, new RegExp(`^${text}$`));
}

/** Returns the texts of elements, with every white space as one space. */
export const texts = async (elements: Locator): Promise<string[]> =>
  (await elements.allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim());

export const row = (page: Page, action: string): Locator =>
  rows(page).filter({ has: page.getByText(action, { exact: true }) });

export const tab = (page: Page, name: string): Locator =>
  page.getByRole('navigation', { name: 'Tasks by state' }).getByText(name);

export const ownTask = (page: Page, state: string): Locator => page.locator(`.own-task[data-state="${state}"]`);

export const queueButton = (page: Page): Locator => page.getByRole('button', { name: 'Queue task' });

export const untilFailed = (tasks: string, count: number) =>
  untilAnswer(`${tasks}/queue`, ({ body }) => body.dead === count);
