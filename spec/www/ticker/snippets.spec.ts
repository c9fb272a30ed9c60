import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { type SnippetName, snippets, TOKEN_PLACEHOLDER, tokenCommand } from '../../../www/ticker/snippets.ts';
import { onceForSuite, temporaryFolder } from '../../support/cleanup.ts';
import { outputOf, paste } from '../../support/examples.ts';
import { startServices, watch } from '../../support/program.ts';
import { lackingPython, python } from '../../support/python.ts';
import { describeWith } from '../../support/requirements.ts';

describe('the snippets of the price page', () => {
  const running = onceForSuite(() => startServices());

  /** Returns a snippet with a token in the place of the placeholder. */
  async function filled(name: SnippetName): Promise<string> {
    const { ticker, token } = running();
    const code = snippets[name](ticker);
    expect(code.split(TOKEN_PLACEHOLDER)).to.have.length(2);
    return code.replace(TOKEN_PLACEHOLDER, await token());
  }

  /** Runs a program, and waits until it has printed the welcome and two updates. */
  async function expectStream(command: string): Promise<void> {
    const shell = paste(command);
    const client = watch(shell);
    await client.logged(() => client.lines.filter(({ type }) => type === 'ticker').length >= 2);
    shell.stdin.end();
    expect(client.lines[0]).to.deep.equal({ type: 'welcome', user_id: 'user:demo' });
  }

  it('stream to Node', async () => {
    const path = join(await temporaryFolder(), 'client.mjs');
    await writeFile(path, await filled('node'));
    await expectStream(`exec ${process.execPath} ${path}`);
  });

  describeWith(lackingPython, 'in Python', () => {
    it('stream', async () => {
      const path = join(await temporaryFolder(), 'client.py');
      await writeFile(path, await filled('python'));
      await expectStream(`exec ${python} ${path}`);
    });
  });

  it('get a token with curl', async () => {
    const { ticker, apiKey } = running();
    const output = await outputOf(tokenCommand(ticker).replace('YOUR_API_KEY', apiKey));
    expect(JSON.parse(output)).to.include({ user_id: 'demo', expires_in: 3600 });
  });

  it('use TLS if the page does, and quote the address', () => {
    for (const code of Object.values(snippets)) {
      expect(code('https://prices.example')).to.include('wss://prices.example/ws/ticker');
    }
    const hostile = `http://a'$(id)\`id\`.example`;
    const print = (word: string) => execFileSync('sh', ['-c', `printf %s ${word}`], { encoding: 'utf8' });
    const [, word = ''] = /^curl (.*) -d /.exec(tokenCommand(hostile)) ?? [];
    expect(print(word)).to.equal(`${hostile}/auth/token`);
    const [, address = ''] = /-c (.*) -s ticker/.exec(snippets.wscat(hostile)) ?? [];
    expect(print(address)).to.equal(`${hostile.replace('http', 'ws')}/ws/ticker`);
    for (const name of ['browser', 'node', 'python'] as const) {
      expect(snippets[name](hostile)).to.include(JSON.stringify(`${hostile.replace('http', 'ws')}/ws/ticker`));
    }
  });
});
