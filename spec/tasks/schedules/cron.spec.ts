import { expect } from 'chai';
import { cronTimes } from '../../../main/tasks/schedules/cron.ts';

const iso = (times: readonly number[]) => times.map((time) => new Date(time).toISOString().slice(0, 19));
const timesAfter = (cron: string, zone: string, time: string, count: number) =>
  iso(cronTimes(cron, zone).after(Date.parse(`${time}Z`), count));

describe('the times of a cron expression', () => {
  it('follow a time, in the time zone, with five fields or six', () => {
    expect(timesAfter('0 3 * * *', 'UTC', '2026-01-01T03:00:00', 1)).to.deep.equal(['2026-01-02T03:00:00']);
    expect(timesAfter('0 3 * * *', 'UTC', '2026-01-01T02:59:59.999', 1)).to.deep.equal(['2026-01-01T03:00:00']);
    expect(timesAfter('0 3 * * *', 'Asia/Kolkata', '2026-01-01T00:00:00', 1)).to.deep.equal(['2026-01-01T21:30:00']);
    const wide = timesAfter('*/59 */59 */23 31 12 *', 'UTC', '2026-01-01T00:00:00', 8);
    expect(wide.map((time) => time.slice(5))).to.deep.equal([
      ...['12-31T00:00:00', '12-31T00:00:59', '12-31T00:59:00', '12-31T00:59:59'],
      ...['12-31T23:00:00', '12-31T23:00:59', '12-31T23:59:00', '12-31T23:59:59'],
    ]);
    expect(timesAfter('30 9 * * MON-FRI', 'UTC', '2026-01-02T10:00:00', 1)).to.deep.equal(['2026-01-05T09:30:00']);
  });

  const spring = '2026-03-28T12:00:00';
  const night = '2026-03-28T23:00:00';
  const autumn = '2026-10-24T12:00:00';
  for (const [what, cron, time, expected] of [
    ['does not exist runs once, at the end of the gap', '30 2 * * *', spring, ['29T01:00', '30T00:30', '31T00:30']],
    ['does not exist, of a list', '30 2,14 * * *', spring, ['28T13:30', '29T01:00', '29T12:30']],
    ['does not exist, with a step', '*/30 2 * * *', spring, ['29T01:00', '30T00:00', '30T00:30']],
    ['does not exist, with a wildcard', '* 2 * * *', spring, ['29T01:00', '30T00:00', '30T00:01']],
    ['does not exist, with a step of hours', '0 */2 * * *', night, ['29T01:00', '29T02:00', '29T04:00']],
    ['occurs twice runs once, the first time', '30 2 * * *', autumn, ['25T00:30', '26T01:30', '27T01:30']],
    ['occurs twice, of a range', '15 1-3 * * *', '2026-10-24T22:00:00', ['24T23:15', '25T00:15', '25T02:15']],
    ['occurs twice, with a step', '*/30 2 * * *', autumn, ['25T00:00', '25T00:30', '26T01:00']],
    ['occurs twice, with seconds', '30 0,30 2 * * *', autumn, ['25T00:00', '25T00:30', '26T01:00']],
    ['occurs twice, between its occurrences', '30 2 * * *', '2026-10-25T00:30:00', ['26T01:30']],
    ['occurs twice, at the change', '30 2 * * *', '2026-10-25T01:00:00', ['26T01:30']],
    ['belongs to every hour is skipped in spring', '30 * * * *', '2026-03-29T00:00:00', ['29T00:30', '29T01:30']],
    ['belongs to every hour runs in both of autumn', '30 * * * *', '2026-10-25T00:00:00', ['25T00:30', '25T01:30']],
    ['belongs to every minute', '* * * * *', '2026-10-25T00:59:00', ['25T01:00', '25T01:01']],
  ] as const) {
    it(`in Berlin: a time that ${what}`, () => {
      const found = timesAfter(cron, 'Europe/Berlin', time, expected.length);
      expect(found.map((each) => each.slice(8, 16))).to.deep.equal(expected);
    });
  }

  it('are the same one by one, many at a time and backwards', () => {
    for (const cron of ['30 2 * * *', '*/20 * * * *', '*/20 1-3 * * *', '0 */2 * * *', '* 2 * * *', '0 0 29 2 *'])
      for (const from of [spring, autumn]) {
        const times = cronTimes(cron, 'Europe/Berlin');
        const start = Date.parse(`${from}Z`);
        const many = times.after(start, 90);
        const single: number[] = [];
        for (let time = start; single.length < 90; single.push(time)) time = times.after(time, 1)[0] as number;
        expect(single, cron).to.deep.equal(many);
        const [before, end] = many.slice(-2) as [number, number];
        const backwards: number[] = [];
        for (const time of times.until(end)) if (backwards.push(time) === 90) break;
        expect(backwards.toReversed(), cron).to.deep.equal(many);
        expect([times.until(end - 1).next().value, times.until(end + 999).next().value]).to.deep.equal([before, end]);
      }
  });
});
