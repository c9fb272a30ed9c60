import { execFileSync } from 'node:child_process';
import { expect } from 'chai';
import { type SnippetName, snippets, TOKEN_PLACEHOLDER, tokenCommand } from '../../../www/ticker/snippets.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { adapt, examples, outputOf, paste, projectWith } from '../../support/examples.ts';
import { startServices, watch } from '../../support/program.ts';
import { lackingPython, python } from '../../support/python.ts';
import { describeWith } from '../../support/requirements.ts';

describe('the snippets of the price page', () => {
  const started = onceForSuite(startServices);

  async function filled(name: SnippetName): Promise<string> {
    const { ticker, token } = started();
    const code = snippets[name](ticker);
    expect(code.split(TOKEN_PLACEHOLDER)).to.have.length(2);
    return code.replace(TOKEN_PLACEHOLDER, await token());
  }

  /** Runs a client, and waits until it has printed the welcome and a message of a type, by default two updates. */
  async function expectStream(command: string, type = 'ticker', count = 2): Promise<void> {
    const shell = paste(command, { ...started().env, API_KEY: started().apiKey });
    const { lines, logged, exited } = watch(shell);
    await logged(() => lines.filter((line) => line.type === type).length >= count);
    // wscat exits at the end of its input, as at Ctrl-D.
    shell.stdin.end();
    if (/wscat/.test(command)) await exited;
    expect(lines[0]).to.deep.equal({ type: 'welcome', user_id: 'user:demo' });
  }

  it('stream to Node', async () => {
    const folder = await projectWith({ 'client.mjs': await filled('node') });
    await expectStream(`exec ${process.execPath} ${folder}/client.mjs`);
  });

  describeWith(lackingPython, 'in Python', () => {
    it('stream', async () => {
      const folder = await projectWith({ 'client.py': await filled('python') });
      await expectStream(`exec ${python} ${folder}/client.py`);
    });
  });

  it('stream to wscat, as do the commands of README and guide and one with the token in the address', async () => {
    const { stream, token } = started();
    const [, readme] = examples('README.md', 'Try it');
    const [guide] = examples('www/guide/other-clients.md', 'The shell');
    for (const command of [await filled('wscat'), adapt(readme, started()), adapt(guide, started())])
      await expectStream(command);
    const ping = `--execute '{"type": "ping"}'`;
    await expectStream(`npx wscat --connect '${stream}?token=${await token()}' ${ping}`, 'pong', 1);
  });

  it('get a token with curl', async () => {
    const { ticker, apiKey } = started();
    const output = await outputOf(tokenCommand(ticker).replace('YOUR_API_KEY', apiKey));
    expect(JSON.parse(output)).to.include({ user_id: 'demo', expires_in: 3600 });
  });

  it('use TLS if the page does, and quote the address', () => {
    for (const code of Object.values(snippets))
      expect(code('https://prices.example')).to.include('wss://prices.example/ws/ticker');
    const hostile = `http://a'$(id)\`id\`.example`;
    const print = (word: string) => execFileSync('sh', ['-c', `printf %s ${word}`], { encoding: 'utf8' });
    const stream = `${hostile.replace('http', 'ws')}/ws/ticker`;
    const [, word = ''] = /^curl (.*) -d /.exec(tokenCommand(hostile)) ?? [];
    const [, address = ''] = /-c (.*) -s ticker/.exec(snippets.wscat(hostile)) ?? [];
    expect([print(word), print(address)]).to.deep.equal([`${hostile}/auth/token`, stream]);
    for (const name of ['browser', 'node', 'python'] as const)
      expect(snippets[name](hostile)).to.include(JSON.stringify(stream));
  });
});
