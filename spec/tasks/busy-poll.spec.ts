import { expect } from 'chai';
import { BusyPoll } from '../../main/tasks/busy-poll.ts';

const turn = () => new Promise((resolve) => setTimeout(resolve));
const keepsAwake = () => process.getActiveResourcesInfo().includes('Immediate');

describe('BusyPoll', () => {
  it('keeps the event loop awake, turning, and stops by itself', async () => {
    const poll = new BusyPoll(2);
    expect(keepsAwake()).to.equal(false);
    poll.begin();
    poll.begin();
    expect(keepsAwake()).to.equal(true);
    while (keepsAwake()) await turn();
    poll.begin();
    expect(keepsAwake()).to.equal(true);
  });

  it('stops when it is told to', async () => {
    const poll = new BusyPoll(2);
    poll.begin();
    poll.end();
    await new Promise((resolve) => setImmediate(resolve));
    expect(keepsAwake()).to.equal(false);
  });

  it('leaves a single core to whom it waits for', () => {
    new BusyPoll(1).begin();
    expect(keepsAwake()).to.equal(false);
  });
});
