import { expect } from 'chai';
import { snippets } from '../../www/ticker/snippets.ts';
import { onceForSuite } from '../support/cleanup.ts';
import { adapt, examples, paste } from '../support/examples.ts';
import { freshSettings, type RunningServices, startServices, watch } from '../support/program.ts';

/** Commands that run wscat, each with another way to pass the token. */
const commands: Record<string, (services: RunningServices) => string | undefined | Promise<string>> = {
  'a header, as in the README': (services) => adapt(examples('README.md', 'Try it')[1], services),
  'a subprotocol, as in the guide': (services) =>
    adapt(examples('www/guide/other-clients.md', 'The shell')[0], services),
  'a subprotocol, as on the price page': async ({ ticker, token }) =>
    snippets.wscat(ticker).replace('YOUR_TOKEN', await token()),
};

describe('wscat', () => {
  const started = onceForSuite(async () => {
    const env = await freshSettings();
    return { env, services: await startServices({ env }) };
  });

  for (const [place, command] of Object.entries(commands)) {
    it(`receives the welcome and prices with the token in ${place}`, async () => {
      const { env, services } = started();
      const shell = paste((await command(services)) ?? '', { ...env, API_KEY: services.apiKey });
      const client = watch(shell);
      await client.logged(({ type }) => type === 'ticker');
      // wscat exits at the end of its input, as at Ctrl-D.
      shell.stdin.end();
      await client.exited;
      expect(client.lines[0]).to.deep.equal({ type: 'welcome', user_id: 'user:demo' });
    });
  }

  it('receives a pong for a ping, with the token in the address', async () => {
    const { stream, token } = started().services;
    const shell = paste(`npx wscat --connect '${stream}?token=${await token()}' --execute '{"type": "ping"}'`);
    await watch(shell).logged(({ type }) => type === 'pong');
    shell.stdin.end();
  });
});
