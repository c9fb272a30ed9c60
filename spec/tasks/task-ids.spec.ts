import { expect } from 'chai';
import { taskIds } from '../../main/tasks/http/prepare-submission.ts';
import { systemRandom } from '../../workers/shared/clock.ts';

describe('task ids', () => {
  const newTaskId = taskIds(systemRandom);
  const ids = Array.from({ length: 640 }, () => newTaskId());

  it('share their first digits in runs of 64, so that an index keeps them together', () => {
    const prefixes = ids.map((id) => id.slice(0, 4));
    for (const [index, prefix] of prefixes.entries()) expect(prefix).to.equal(prefixes[index - (index % 64)]);
    expect(new Set(prefixes)).to.have.length.above(8);
  });
});
