import { expect } from 'chai';
import { readCallbackUrl } from '../../../workers/submissions/callback-url.ts';
import { misspeltOption, submissionOptions } from '../../../workers/submissions/submission-options.ts';

/** 2026-11-22T12:00:00.500Z */
const NOW = 1_795_348_800_500;
const YEAR = 366 * 24 * 60 * 60;

describe('the options of a submission', () => {
  it('make a task due at once or later, with any priority, and a limit key of up to 255 characters', () => {
    for (const [fields, ms] of [
      [{ action: 'sum' }, undefined],
      [{ delay: 0.25 }, 250],
      [{ delay: 0.0001 }, 1],
      [{ delay: YEAR }, YEAR * 1000],
      [{ delay: 0 }, undefined],
      [{ run_at: NOW / 1000 + 0.123 }, 123],
      [{ run_at: NOW / 1000 + YEAR }, YEAR * 1000],
      [{ run_at: NOW / 1000 - 60 }, undefined],
      [{ run_at: '2026-11-22T12:01Z' }, 59_500],
      [{ run_at: '2026-11-22T12:00:01Z' }, 500],
      [{ run_at: '2026-11-22T13:00:00.750+01:00' }, 250],
      [{ run_at: '2026-11-22T06:30:00.750-05:30' }, 250],
      [{ run_at: '2026-11-22T06:30:00.750-0530' }, 250],
      [{ run_at: '2026-11-22T13:01+01' }, 59_500],
      [{ run_at: '2027-02-28T12:00:00Z' }, 8_467_199_500],
      [{ run_at: '2026-11-22T12:00:00Z' }, undefined],
    ] as const)
      expect(submissionOptions({ ...fields }, NOW), JSON.stringify(fields)).to.deep.equal(
        ms ? { runAt: NOW + ms } : {},
      );
    const withKey = (seconds: number) => submissionOptions({ run_at: NOW / 1000 - seconds }, NOW, [], true);
    expect([86_460, 86_460.1].map(withKey)).to.deep.equal([{}, { error: 'invalidRunAt' }]);
    for (const priority of [1, 5]) expect(submissionOptions({ priority }, NOW)).to.deep.equal({ priority });
    const limitKey = 'k'.repeat(255);
    expect(submissionOptions({ limit_key: limitKey }, NOW)).to.deep.equal({ limitKey });
  });

  it('are refused if the time is none, has no offset, or is too early or too late', () => {
    const texts = [
      ...['', 'now', '60', '2026-11-22', '2026-11-22T12:01', '2026-11-22 12:01Z', ' 2026-11-22T12:01Z'],
      ...['2026-11-22T12:01:00+010', '2026-11-22T12:01:00+1:00', '2026-11-22T12:01+25', '2026-11-22T12:01+0160'],
      ...['2027-02-29T12:00Z', '2027-13-01T12:00Z', '2027-01-01T25:00Z', '2027-01-01T12:60Z'],
      ...['2026-11-22T11:59:00Z', '2027-11-23T12:00:01Z', '+002026-11-22T12:01Z'],
    ];
    const numbers = [NOW / 1000 - 60.1, NOW / 1000 + YEAR + 0.1, NOW, 0, Infinity, Number.NaN];
    for (const run_at of [...texts, ...numbers, null, true, [NOW / 1000], {}])
      expect(submissionOptions({ run_at }, NOW), String(run_at)).to.deep.equal({ error: 'invalidRunAt' });
  });
});

describe('a field that looks like an option', () => {
  it('is found by its spelling, its unit, or a typing error', () => {
    for (const [meant, names] of Object.entries({
      run_at: 'runAt run-at RUN_AT runat run_at_ms rnu_at',
      delay: 'Delay delay_seconds delayMs dealy delays dely delay_minute delay_hours delayDays delay_h',
      idempotency_key: 'idempotency_key idempotencyKey Idempotency-Key',
      priority: 'Priority prioritty priorty prioroty',
      callback_url: 'callbackUrl callback-url callback_uri',
      limit_key: 'limitKey limit-key limit_keys limitkex',
    }))
      for (const name of names.split(' '))
        expect(misspeltOption({ action: 'sum', data: {}, [name]: 1 }), name).to.deep.equal({ name, meant });
  });

  it('is not an option, and none that has another meaning', () => {
    const options = 'delay run_at priority limit_key callback_url';
    const others = 'callback id created_at user type meta key filler idempotent constructor __proto__';
    const similar = 'relay decay play delayed_by run ran_at_home limit limited limits prior minority';
    for (const name of [...`${options} ${others} ${similar}`.split(' '), '', 'x'.repeat(10_000)]) {
      const fields = JSON.parse(`{"action":"sum",${JSON.stringify(name)}:1}`);
      expect(misspeltOption(fields), name.slice(0, 20)).to.equal(undefined);
    }
  });
});

/** A URL of 2049 characters. */
const long = `https://example.com/${'x'.repeat(2029)}`;
const HOSTS = ['example.com', 'other.example:8443', '127.0.0.1:8000', '[::1]', 'localhost'];

describe('a callback URL', () => {
  it('is normalised', () => {
    for (const [value, url] of Object.entries({
      'https://example.com': 'https://example.com/',
      'http://EXAMPLE.com:80/a b?c=d#e': 'http://example.com/a%20b?c=d',
      'https://example.com:443/': 'https://example.com/',
      'https://other.example:8443/x': 'https://other.example:8443/x',
      'http://other.example:8443/x': 'http://other.example:8443/x',
      'http://0x7f.1:8000/': 'http://127.0.0.1:8000/',
      'http://[0:0::1]/': 'http://[::1]/',
      'http://localhost/': 'http://localhost/',
    }))
      expect(readCallbackUrl(value, HOSTS)).to.deep.equal({ url });
    expect(readCallbackUrl(long.slice(0, -1), HOSTS)).to.have.property('url');
  });

  const notListed = (host: string) => `the host ${host} is not in CALLBACK_HOSTS`;
  const withName = 'must have no user name and no password';
  for (const [wrong, ...values] of [
    ['must be a text', null, 1, true, {}, ['https://example.com']],
    ['must be a URL', '', 'example.com', '//example.com', 'https://'],
    ['must begin with https:// or http://', 'ftp://example.com', 'file:///etc/passwd', 'javascript:1'],
    [withName, 'https://user@example.com/', 'https://:secret@example.com/', 'https://example.com@evil.example/'],
    ['must have at most 2048 characters', long, `https://example.com/${'ü'.repeat(400)}`],
    [notListed('example.com:8443'), 'https://example.com:8443/'],
    [notListed('other.example'), 'https://other.example/'],
    [notListed('example.com.'), 'https://example.com./'],
    [notListed('a.example.com'), 'https://a.example.com/'],
    [notListed('127.0.0.1'), 'http://2130706433/'],
    [notListed('evil.example'), 'https://evil.example\\@example.com/'],
  ] as const) {
    it(`is refused: ${wrong}`, () => {
      for (const value of values) expect(readCallbackUrl(value, HOSTS), String(value)).to.deep.equal({ wrong });
    });
  }
});
