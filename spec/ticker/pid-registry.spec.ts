import { expect } from 'chai';
import { type ExitReason, PidRegistry, type Process } from '../../main/ticker/pid-registry.ts';
import type { LifecycleMessage } from '../../workers/messages.ts';
import { Recorder } from '../support/recorder.ts';

const leave: LifecycleMessage = { topic: 'ws.leave', reason: 'x' };

const throws = (error: unknown): Process => ({
  receive() {
    throw error;
  },
});

describe('processes', () => {
  it('have addresses of their own, that are never used again', () => {
    const processes = new PidRegistry();
    const pids = Array.from({ length: 100 }, (_, index) => {
      const pid = processes.spawn(index % 2 === 0 ? 'handler' : 'client', () => new Recorder());
      processes.exit(pid, 'normal');
      return pid;
    });
    expect(new Set(pids).size).to.equal(100);
    expect(processes.size).to.equal(0);
  });

  it('receive what is sent to their address, in order, and nothing else', () => {
    const processes = new PidRegistry();
    const [first, second] = [new Recorder(), new Recorder()];
    const pid = processes.spawn('handler', () => first);
    processes.spawn('handler', () => second);
    const messages: LifecycleMessage[] = [{ topic: 'ws.join', client_pid: 'c' }, leave];
    for (const message of messages) processes.send(pid, message);
    expect(first.received).to.deep.equal(messages);
    expect(second.received).to.deep.equal([]);
  });

  it('can have a name, which no second one takes', () => {
    const processes = new PidRegistry();
    const recorder = new Recorder();
    processes.register('ticker', recorder);
    expect(() => processes.register('ticker', new Recorder())).to.throw('ticker');
    processes.send('ticker', leave);
    expect(recorder.received).to.deep.equal([leave]);
    processes.exit('ticker', 'normal');
    processes.register('ticker', new Recorder());
  });

  it('that are gone lose what is sent to them', () => {
    const processes = new PidRegistry();
    const recorder = new Recorder();
    const pid = processes.spawn('client', () => recorder);
    processes.exit(pid, 'normal');
    processes.send(pid, leave);
    processes.send('nobody', leave);
    expect(recorder.received).to.deep.equal([]);
  });

  it('tell those who watch of their end, once, with its reason', () => {
    const processes = new PidRegistry();
    const pid = processes.spawn('handler', () => new Recorder());
    const reasons: ExitReason[] = [];
    processes.monitor(pid, { onExit: (_pid, reason) => reasons.push(reason) });
    processes.monitor(pid, { onExit: (_pid, reason) => reasons.push(reason) });
    const error = new Error('x');
    processes.exit(pid, error);
    processes.exit(pid, 'normal');
    expect(reasons).to.deep.equal([error, error]);
  });

  it('are removed before their watchers are notified', () => {
    const processes = new PidRegistry();
    const recorder = new Recorder();
    const pid = processes.spawn('handler', () => recorder);
    processes.monitor(pid, {
      onExit() {
        processes.send(pid, leave);
        processes.exit(pid, 'normal');
      },
    });
    processes.exit(pid, 'normal');
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
      const processes = new PidRegistry();
      const pid = processes.spawn('handler', () => throws(thrown));
      const reasons: ExitReason[] = [];
      processes.monitor(pid, { onExit: (_pid, reason) => reasons.push(reason) });
      processes.send(pid, leave);
      expect(reasons.map(String)).to.deep.equal([String(expected)]);
      expect(reasons[0]).to.be.instanceOf(Error);
      expect(processes.size).to.equal(0);
    }
  });
});
