import { expect } from 'chai';
import { RenderSchedule } from '../../../www/tasks/render-schedule.ts';
import { until } from '../../support/until.ts';
import { imitatePage } from './imitated-page.ts';

describe('the rendering of the board', () => {
  it('reports the error of one part, and renders the others', async () => {
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
      await until(() => calls === call);
    }
    expect(reported).to.deep.equal([error, error]);
  });

  it('waits while the page is hidden', async () => {
    const page = imitatePage();
    const schedule = new RenderSchedule();
    const states: string[] = [];
    schedule.subscribe(() => states.push(document.visibilityState));
    page.setVisible(false);
    schedule.request();
    page.setVisible(true);
    await until(() => states.length === 1);
    expect(states).to.deep.equal(['visible']);
  });
});
