import { expect } from 'chai';
import { RenderSchedule } from '../../../www/tasks/render-schedule.ts';
import { eventually } from '../../support/until.ts';
import { imitatePage } from './imitated-page.ts';

describe('RenderSchedule', () => {
  it('reports the error of a subscriber, and calls the others', async () => {
    const { reported } = imitatePage();
    const schedule = new RenderSchedule();
    const error = new Error('cannot render');
    let calls = 0;
    schedule.subscribe(() => {
      throw error;
    });
    schedule.subscribe(() => {
      calls += 1;
    });
    for (const call of [1, 2]) {
      schedule.request();
      await eventually(
        () => calls,
        (count) => count === call,
      );
    }
    expect(reported).to.deep.equal([error, error]);
  });

  it('calls no subscriber while the page is hidden', async () => {
    const page = imitatePage();
    const schedule = new RenderSchedule();
    const states: string[] = [];
    schedule.subscribe(() => states.push(document.visibilityState));
    page.setVisible(false);
    schedule.request();
    page.setVisible(true);
    await eventually(
      () => states.length,
      (count) => count === 1,
    );
    expect(states).to.deep.equal(['visible']);
  });
});
