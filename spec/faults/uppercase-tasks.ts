import { expect } from 'chai';
import { post, type RunningServices, request } from '../support/program.ts';
import { eventually } from '../support/until.ts';

/** Submits tasks and returns their ids. */
export async function submit({ tasks }: RunningServices, count: number, text = 'abc'): Promise<string[]> {
  const submission = { action: 'uppercase', data: { text } };
  const answers = await Promise.all(Array.from({ length: count }, () => post(`${tasks}/tasks`, submission)));
  expect(answers.map(({ status }) => status)).to.deep.equal(Array(count).fill(202));
  return answers.map(({ body }) => body.id);
}

/** Waits until every task is completed. */
export async function completed({ tasks }: RunningServices, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    await eventually(
      () => request(`${tasks}/tasks/${id}`),
      ({ body }) => body.status === 'completed',
    );
  }
}
