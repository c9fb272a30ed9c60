import { expect } from 'chai';
import fc from 'fast-check';
import { closeCodes } from '../../main/ticker/close-codes.ts';
import { HandlersByToken } from '../../main/ticker/handlers-by-token.ts';
import { PidRegistry } from '../../main/ticker/pid-registry.ts';

describe('HandlersByToken', () => {
  it('knows just the handlers that are alive, whatever happens to them', () => {
    const steps = fc.array(
      fc.record({ does: fc.constantFrom('start', 'exit', 'end'), token: fc.nat(3), which: fc.nat() }),
    );
    fc.assert(
      fc.property(steps, (all) => {
        const processes = new PidRegistry();
        const holders = new HandlersByToken(processes);
        const alive = new Map<string, string>();
        for (const { does, token, which } of all) {
          const id = `token ${token}`;
          if (does === 'start') {
            const pid = processes.spawn('handler', () => ({ receive() {} }));
            alive.set(pid, id);
            processes.monitor(pid, { onExit: () => alive.delete(pid) });
            holders.add(id, pid);
          } else if (does === 'exit') {
            const pid = [...alive.keys()][which % alive.size];
            if (pid !== undefined) processes.exit(pid, 'normal');
          } else {
            holders.end(id, 'token revoked');
            expect([...alive.values()]).to.not.include(id);
          }
          expect(holders.size).to.equal(new Set(alive.values()).size);
          expect(processes.size).to.equal(alive.size);
        }
      }),
    );
  });

  it('ends handlers with the reason, and does nothing for a token without any', () => {
    const processes = new PidRegistry();
    const holders = new HandlersByToken(processes);
    const reasons: unknown[] = [];
    const pid = processes.spawn('handler', () => ({ receive() {} }));
    processes.monitor(pid, { onExit: (_pid, reason) => reasons.push(reason) });
    holders.add('a', pid);
    holders.end('b', 'token revoked');
    expect(reasons).to.deep.equal([]);
    holders.end('a', 'token expired');
    holders.end('a', 'token revoked');
    expect(reasons).to.deep.equal([closeCodes.tokenExpired]);
  });
});
