import { expect } from 'chai';
import { type ExitReason, type LifecycleMessage, PidRegistry } from '../../main/ticker/pid-registry.ts';
import { Recorder } from '../support/recorder.ts';

const leave: LifecycleMessage = { topic: 'ws.leave', reason: 'x' };

/** Monitors an actor. Returns the reasons of its ends. */
function watch(actors: PidRegistry, pid: string): ExitReason[] {
  const reasons: ExitReason[] = [];
  actors.monitor(pid, { onExit: (_pid, reason) => reasons.push(reason) });
  return reasons;
}

describe('actors', () => {
  it('can have a name, which no second one takes', () => {
    const actors = new PidRegistry();
    const recorder = new Recorder();
    actors.register('ticker', recorder);
    expect(() => actors.register('ticker', new Recorder())).to.throw('ticker');
    actors.send('ticker', leave);
    expect(recorder.received).to.deep.equal([leave]);
    actors.exit('ticker', 'normal');
    actors.register('ticker', new Recorder());
  });

  it('are removed at their end before all who watch are told of it, once, with its reason', () => {
    const actors = new PidRegistry();
    const recorder = new Recorder();
    const pid = actors.spawn('handler', () => recorder);
    actors.monitor(pid, {
      onExit() {
        actors.send(pid, leave);
        actors.exit(pid, 'normal');
      },
    });
    const reasons = [watch(actors, pid), watch(actors, pid)];
    const error = new Error('x');
    actors.exit(pid, error);
    actors.exit(pid, 'normal');
    expect(reasons).to.deep.equal([[error], [error]]);
    expect(recorder.received).to.deep.equal([]);
    expect(watch(actors, pid), 'after the end').to.deep.equal(['normal']);
    expect(actors.spawn('handler', () => recorder)).to.not.equal(pid);
  });

  it('end when they throw, with an error, and the sender does not', () => {
    for (const thrown of [new Error('text'), 'text']) {
      const actors = new PidRegistry();
      const receive = () => {
        throw thrown;
      };
      const pid = actors.spawn('handler', () => ({ receive }));
      const reasons = watch(actors, pid);
      actors.send(pid, leave);
      expect(reasons[0]).to.be.instanceOf(Error);
      expect(reasons.map(String)).to.deep.equal(['Error: text']);
      expect(actors.size).to.equal(0);
    }
  });
});
