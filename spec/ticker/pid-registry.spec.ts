import { expect } from 'chai';
import { type Actor, type ExitReason, type LifecycleMessage, PidRegistry } from '../../main/ticker/pid-registry.ts';
import { Recorder } from '../support/recorder.ts';

const leave: LifecycleMessage = { topic: 'ws.leave', reason: 'x' };

const throws = (error: unknown): Actor => ({
  receive() {
    throw error;
  },
});

describe('actors', () => {
  it('have addresses of their own, that are never used again', () => {
    const actors = new PidRegistry();
    const pids = Array.from({ length: 100 }, (_, index) => {
      const pid = actors.spawn(index % 2 === 0 ? 'handler' : 'client', () => new Recorder());
      actors.exit(pid, 'normal');
      return pid;
    });
    expect(new Set(pids).size).to.equal(100);
    expect(actors.size).to.equal(0);
  });

  it('receive what is sent to their address, in order, and nothing else', () => {
    const actors = new PidRegistry();
    const [first, second] = [new Recorder(), new Recorder()];
    const pid = actors.spawn('handler', () => first);
    actors.spawn('handler', () => second);
    const messages: LifecycleMessage[] = [{ topic: 'ws.join', client_pid: 'c' }, leave];
    for (const message of messages) actors.send(pid, message);
    expect(first.received).to.deep.equal(messages);
    expect(second.received).to.deep.equal([]);
  });

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

  it('that are gone lose what is sent to them', () => {
    const actors = new PidRegistry();
    const recorder = new Recorder();
    const pid = actors.spawn('client', () => recorder);
    actors.exit(pid, 'normal');
    actors.send(pid, leave);
    actors.send('nobody', leave);
    expect(recorder.received).to.deep.equal([]);
  });

  it('tell those who watch of their end, once, with its reason', () => {
    const actors = new PidRegistry();
    const pid = actors.spawn('handler', () => new Recorder());
    const reasons: ExitReason[] = [];
    actors.monitor(pid, { onExit: (_pid, reason) => reasons.push(reason) });
    actors.monitor(pid, { onExit: (_pid, reason) => reasons.push(reason) });
    const error = new Error('x');
    actors.exit(pid, error);
    actors.exit(pid, 'normal');
    expect(reasons).to.deep.equal([error, error]);
  });

  it('are removed before their watchers are notified', () => {
    const actors = new PidRegistry();
    const recorder = new Recorder();
    const pid = actors.spawn('handler', () => recorder);
    actors.monitor(pid, {
      onExit() {
        actors.send(pid, leave);
        actors.exit(pid, 'normal');
      },
    });
    actors.exit(pid, 'normal');
    expect(recorder.received).to.deep.equal([]);
  });

  it('that have ended already tell those who watch at once', () => {
    const reasons: ExitReason[] = [];
    new PidRegistry().monitor('nobody', { onExit: (_pid, reason) => reasons.push(reason) });
    expect(reasons).to.deep.equal(['normal']);
  });

  it('end when they throw, and the sender does not', () => {
    const error = new Error('x');
    for (const [thrown, expected] of [
      [error, error],
      ['text', new Error('text')],
      [null, new Error('null')],
    ]) {
      const actors = new PidRegistry();
      const pid = actors.spawn('handler', () => throws(thrown));
      const reasons: ExitReason[] = [];
      actors.monitor(pid, { onExit: (_pid, reason) => reasons.push(reason) });
      actors.send(pid, leave);
      expect(reasons.map(String)).to.deep.equal([String(expected)]);
      expect(reasons[0]).to.be.instanceOf(Error);
      expect(actors.size).to.equal(0);
    }
  });
});
