import { expect } from 'chai';
import { type Draft, DraftError, parseDraft } from '../../../www/tasks/draft.ts';
import { formatBetween, formatMeasured } from '../../../www/tasks/durations.ts';
import { indent, readOutput, readPayload } from '../../../www/tasks/json-text.ts';

const draft = (values: Partial<Draft>): Draft => ({
  kind: 'uppercase',
  text: '',
  numbers: '',
  action: '',
  json: '',
  ...values,
});

describe('a draft', () => {
  it('becomes the task that it describes', () => {
    expect(parseDraft(draft({ text: ' a ' }))).to.deep.equal({ action: 'uppercase', data: { text: ' a ' } });
    expect(parseDraft(draft({ kind: 'sum', numbers: ' 1,2;3 \n -4.5e1 ' })).data).to.deep.equal({
      numbers: [1, 2, 3, -45],
    });
    expect(parseDraft(draft({ kind: 'sum' })).data).to.deep.equal({ numbers: [] });
    expect(parseDraft(draft({ kind: 'other', action: ' x ', json: ' {"a": [1]} ' }))).to.deep.equal({
      action: 'x',
      data: { a: [1] },
    });
    expect(parseDraft(draft({ kind: 'other', choice: 'y', action: 'x' })).action).to.equal('y');
    expect(parseDraft(draft({ kind: 'other', choice: '', action: 'x' })).action).to.equal('x');
    expect(parseDraft(draft({ kind: 'other', action: 'x' })).data).to.deep.equal({});
  });

  it('that describes none names the field to mend', () => {
    const wrong: [Partial<Draft>, field: string][] = [
      [{ kind: 'sum', numbers: '1, two' }, 'numbers'],
      [{ kind: 'sum', numbers: '1e999' }, 'numbers'],
      [{ kind: 'other', action: '  ', json: '{}' }, 'action'],
      ...['{', '[]', 'null', '1', '"x"'].map((json): [Partial<Draft>, string] => [
        { kind: 'other', action: 'x', json },
        'json',
      ]),
    ];
    for (const [values, field] of wrong) {
      expect(() => parseDraft(draft(values)), JSON.stringify(values))
        .to.throw(DraftError)
        .with.property('field', field);
    }
  });
});

describe('a row', () => {
  it('is read whatever it holds', () => {
    expect(readPayload('{"action":"x","data":{"a":1},"id":"1"}')).to.deep.equal({ action: 'x', data: { a: 1 } });
    for (const payload of ['', 'null', '{']) expect(readPayload(payload).action).to.equal('unreadable');
    expect(['{"output":"a"}', '{"output":6.5}', 'nonsense', null].map(readOutput)).to.deep.equal([
      'a',
      '6.5',
      'nonsense',
      '',
    ]);
    expect(indent('{"a":1}')).to.equal('{\n  "a": 1\n}');
    expect(indent('nonsense')).to.equal('nonsense');
  });

  it('says how long it took as precisely as is known', () => {
    expect([120, 3_400, 75_000].map(formatMeasured)).to.deep.equal(['0.12 s', '3.4 s', '75 s']);
    expect([formatBetween(5, 5), formatBetween(5, 8), formatBetween(5, null)]).to.deep.equal([
      'under 1 s',
      'about 3 s',
      '',
    ]);
  });
});
