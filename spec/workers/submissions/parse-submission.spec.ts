import { createHash } from 'node:crypto';
import { expect } from 'chai';
import fc from 'fast-check';
import type { Message } from '../../../db/task-store.ts';
import {
  ACTION_LENGTH,
  actionOf,
  actionStart,
  cut,
  parseSubmission,
} from '../../../workers/submissions/parse-submission.ts';

function parse(text: string | Uint8Array, hasKey = true) {
  return parseSubmission({ bytes: Buffer.from(text as string), id: 'some-id', now: 1_700_000_000_500, hasKey });
}

function messageIn(submission: object): Message {
  return (parse(JSON.stringify(submission)) as { message: Message }).message;
}

const submissions = fc.record(
  { action: fc.string({ unit: 'grapheme' }), data: fc.dictionary(fc.string(), fc.jsonValue()) },
  { requiredKeys: ['action'] },
);

describe('a parsed submission', () => {
  it('has the text of the queued task message, from which the whole action can be read, and a fingerprint of its content', () => {
    fc.assert(
      fc.property(submissions, (submission) => {
        const parsed = parse(JSON.stringify(submission));
        const { action, data = {} } = JSON.parse(JSON.stringify(submission));
        const body = JSON.stringify({ id: 'some-id', action, data, created_at: 1_700_000_000 });
        const message = { id: 'some-id', action: cut(action, ACTION_LENGTH), body };
        const fingerprint = createHash('sha256').update(JSON.stringify({ action, data })).digest('base64');
        expect(parsed).to.deep.equal({ message, fingerprint });
        expect(parse(JSON.stringify(submission), false)).to.deep.equal({ message, fingerprint: undefined });
        expect(actionOf(message)).to.equal(action);
      }),
    );
    for (const action of ['"\\'.repeat(128), `${'a'.repeat(255)}\u{1f600}`, '"\\'.repeat(5_000_000)])
      expect(actionOf(messageIn({ action }))).to.equal(action);
    expect(actionOf({ action: undefined, body: '{' })).to.equal(undefined);
  });

  it('has a text from whose first 2048 characters the start of the action can be read', () => {
    const parts = ['a', '"', '\\', '\0', '\ud800', 'ü', '\u{1f600}', '","data":'];
    const actions = fc.array(fc.constantFrom(...parts), { maxLength: 600 }).map((units) => units.join(''));
    fc.assert(
      fc.property(fc.oneof(actions, fc.string({ unit: 'grapheme', maxLength: 600 })), (action) => {
        const { body: text } = messageIn({ action, data: { a: '","action":"b"' } });
        const start = cut(action, ACTION_LENGTH);
        expect(start.length).to.be.at.least(Math.min(action.length, ACTION_LENGTH - 1));
        expect(actionStart(text)).to.equal(start);
        expect(actionStart(text.slice(0, 2048))).to.equal(start);
      }),
    );
    const cutOff = ['"', '"\\x"}', '"b'].map((rest) => `{"x":"a","action":${rest}`);
    for (const text of ['', 'a', '{}', '{"action":"a"}', ...cutOff])
      expect(actionStart(text), text).to.equal(undefined);
    expect(actionStart('{"id":"a","action":"b"}')).to.equal('b');
  });
});
