import { expect } from 'chai';
import type { Schedule } from '../../../www/client/schedules.ts';
import { settingsText } from '../../../www/tasks/schedules.ts';

const timing = { cron: '0 3 * * *', time_zone: 'UTC', source: 'api', catch_up: 'one', overlap: 'allow' } as const;
const nightly = { name: 'nightly', action: 'sum', data: {}, priority: 3, paused: false, next: [], ...timing };
const schedule = (fields: Partial<Schedule>): Schedule => ({ ...nightly, ...fields });

describe('schedules on the task board', () => {
  it('describe the settings that differ from the defaults', () => {
    expect(settingsText(schedule({}))).to.equal('');
    const settings = { priority: 1, limit_key: 'acme', catch_up: 'all', overlap: 'skip' } as const;
    expect(settingsText(schedule(settings))).to.equal(
      'priority 1, key acme, all missed times run, skips a time while a task is unfinished',
    );
  });
});
