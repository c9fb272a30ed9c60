import { expect } from 'chai';
import { ServiceError } from '../../../www/client/errors.ts';
import type { Schedule } from '../../../www/client/schedules.ts';
import { placeError, WrongInput } from '../../../www/tasks/edit-dialog.ts';
import { nextText, settingsText } from '../../../www/tasks/schedules.ts';

const timing = { cron: '0 3 * * *', time_zone: 'UTC', source: 'api' as const };
const nightly = { name: 'nightly', action: 'sum', data: {}, priority: 3, paused: false, next: [], ...timing };
const schedule = (fields: Partial<Schedule>): Schedule => ({
  ...nightly,
  catch_up: 'one',
  overlap: 'allow',
  ...fields,
});

describe('schedules on the task board', () => {
  it('describe the settings that differ from the defaults', () => {
    expect(settingsText(schedule({}))).to.equal('');
    const settings = { priority: 1, limit_key: 'acme', catch_up: 'all', overlap: 'skip' } as const;
    expect(settingsText(schedule(settings))).to.equal(
      'priority 1, key acme, all missed times run, skips a time while a task is unfinished',
    );
  });

  it('tell the next time, or why there is none', () => {
    const now = new Date(2026, 4, 1, 9);
    const next = [new Date(2026, 4, 1, 14, 3, 5).getTime() / 1000, new Date(2026, 4, 2).getTime() / 1000];
    expect(nextText(schedule({ next }), now)).to.equal('Next 14:03:05');
    expect(nextText(schedule({ paused: true }))).to.equal('Paused');
    expect(nextText(schedule({}))).to.equal('No further time');
  });

  it('place an error at the field that it names', () => {
    const fields = ['cron', 'action', 'data', 'rate/count'].map((name) => ({ name, label: name }));
    const refused = (message: string, path?: string, detail = '') =>
      placeError(new ServiceError(400, { error: message, path, detail }), fields);
    expect(refused('invalid schedule', '/cron', 'has no time')).to.deep.equal({ name: 'cron', message: 'has no time' });
    expect(refused('invalid limits', '/rate/count', 'is wrong')).to.deep.equal({
      name: 'rate/count',
      message: 'is wrong',
    });
    expect(refused('invalid limits', '', 'needs a field')).to.deep.equal({ name: undefined, message: 'needs a field' });
    expect(refused('invalid data', '/text', 'is missing')).to.deep.equal({ name: 'data', message: 'text is missing' });
    expect(refused('action required')).to.deep.equal({ name: 'action', message: 'action required' });
    expect(refused('too many schedules').name).to.equal(undefined);
    expect(placeError(new WrongInput('data', 'no JSON'), fields)).to.deep.equal({ name: 'data', message: 'no JSON' });
  });
});
