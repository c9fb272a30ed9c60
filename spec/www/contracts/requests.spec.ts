import { expect } from 'chai';
import fc from 'fast-check';
import { catalogue, HttpError } from '../../../main/http/errors.ts';
import { idempotencyKey } from '../../../main/tasks/http/prepare-submission.ts';
import { isObject } from '../../../workers/shared/json-object.ts';
import { parseSubmission } from '../../../workers/submissions/parse-submission.ts';
import { mismatch, openApi } from '../../support/contract.ts';

describe('a request', () => {
  const { Submission } = openApi.components.schemas;
  const key = openApi.paths['/tasks']?.post?.parameters?.find(({ name }) => name === 'Idempotency-Key');

  it('to submit a task is accepted if and only if the contract allows it', () => {
    const anything = fc.dictionary(fc.string(), fc.jsonValue());
    const bodies = fc.oneof(
      fc.record({ action: fc.jsonValue(), data: fc.jsonValue() }, { requiredKeys: [] }),
      fc.record({ action: fc.string(), data: anything }, { requiredKeys: ['action'] }),
      anything,
    );
    let taken = 0;
    const property = fc.property(bodies, (value) => {
      const body = JSON.parse(JSON.stringify(value));
      const parsed = parseSubmission({ bytes: Buffer.from(JSON.stringify(body)), id: 'x', now: 1000, hasKey: false });
      const refused = 'error' in parsed ? catalogue[parsed.error][1] : undefined;
      const invalid = 'data' in body && !isObject(body.data) ? 'data must be an object' : undefined;
      expect(refused).to.equal(typeof body.action === 'string' ? invalid : 'action required');
      expect(mismatch(Submission, body) === undefined).to.equal(refused === undefined);
      if (refused === undefined) taken++;
    });
    fc.assert(property, { numRuns: 500 });
    expect(taken).to.be.above(0);
  });

  it('is accepted with exactly the idempotency keys that the contract allows', () => {
    const keys = fc.oneof(fc.string(), fc.constantFrom('x'.repeat(255), 'x'.repeat(256), 'a\n', '', '~', '\x7f'));
    const property = fc.property(keys, (value) => {
      const read = expect(() => idempotencyKey({ 'idempotency-key': value }));
      if (mismatch(key?.schema ?? {}, value) === undefined) read.not.to.throw();
      else read.to.throw(HttpError);
    });
    fc.assert(property);
  });
});
