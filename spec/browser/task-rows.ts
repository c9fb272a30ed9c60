import type { Locator, Page } from 'playwright-core';

/** The actions of the tasks in the list. */
export const listedActions = (page: Page): Locator => page.locator('[data-part="list"] [data-part="action"]');

/** Waits until the list has a task with an action. */
export const lists = (page: Page, action: string): Promise<void> =>
  listedActions(page)
    .filter({ hasText: new RegExp(`^${action}$`) })
    .waitFor();
