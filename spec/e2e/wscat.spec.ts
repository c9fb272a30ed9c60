import { spawn } from 'node:child_process';
import { expect } from 'chai';
import { onceForSuite } from '../support/cleanup.ts';
import { projectFolder, startServices, watch } from '../support/program.ts';
import type { StreamMessage } from '../support/websocket.ts';

/** Runs wscat, types `input`, and returns the first `count` messages that it prints. */
async function wscat(args: string[], input: string, count: number): Promise<StreamMessage[]> {
  const child = spawn('node_modules/.bin/wscat', args, { cwd: projectFolder });
  const program = watch(child);
  child.stdin.write(input);
  await program.logged(() => program.lines.length >= count);
  // wscat exits at the end of its input, as at Ctrl-D.
  child.stdin.end();
  await program.exited;
  return program.lines.slice(0, count) as unknown as StreamMessage[];
}

describe('wscat', () => {
  const services = onceForSuite(() => startServices());

  it('shows welcome, snapshot and ticks, and the pong to a ping', async () => {
    const { stream, token } = services();
    const header = `Authorization: Bearer ${await token()}`;
    const messages = await wscat(['--connect', stream, '--header', header, '--execute', '{"type":"ping"}'], '', 5);
    const types = messages.map(({ type }) => type);
    expect(types[0]).to.equal('welcome');
    expect(types.slice(1)).to.have.members(['ticker', 'ticker', 'ticker', 'pong']);
  });

  it('connects with the token as a subprotocol, and in the address', async () => {
    const { stream, token } = services();
    const bearer = await token();
    const bySubprotocol = ['--connect', stream, '--subprotocol', 'ticker.v1', '--subprotocol', `bearer.${bearer}`];
    for (const args of [bySubprotocol, ['--connect', `${stream}?token=${bearer}`]]) {
      const [welcome] = await wscat(args, '', 1);
      expect(welcome).to.deep.equal({ type: 'welcome', user_id: 'user:demo' });
    }
  });

  it('receives the reason of a refusal without a token', async () => {
    const { stream } = services();
    const program = watch(spawn('node_modules/.bin/wscat', ['--connect', stream], { cwd: projectFolder }));
    await program.exited;
    expect(program.output() + program.errors()).to.include('401');
  });
});
