import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import { onceForSuite } from '../support/cleanup.ts';
import { oldNode } from '../support/old-node.ts';
import { projectFolder, request, startServices, watch } from '../support/program.ts';
import { severable } from '../support/severable.ts';

/** Uses both clients, says so, and closes them when its input ends. */
const program = `
  import { TaskClient, TickerClient } from '${projectFolder}/dist/www/client.js';
  import { WebSocket } from '${projectFolder}/node_modules/ws/wrapper.mjs';
  const [, ticker, tasks, apiKey] = process.argv;
  const prices = new TickerClient(ticker, { apiKey, WebSocket });
  const client = new TaskClient(tasks);
  const hanging = (await client.submit('sum', {}, { delay: 600 })).result().catch(({ message }) => console.log(message));
  // Older versions of Node warn of more than ten listeners of a signal.
  await Promise.all(Array.from({ length: 11 }, () => client.queue.status()));
  for await (const [{ symbol }] of prices.prices({ symbols: ['BTC-USD'] })) {
    const task = await client.submit('uppercase', { text: 'a' });
    // An error of a listener is reported, and harms neither the others nor the client.
    process.once('uncaughtException', ({ message }) => console.error(message));
    task.on('completed', () => {
      throw new Error('own');
    });
    console.log(symbol, (await task.result()).output);
    break;
  }
  const reading = prices.prices().next();
  for await (const _ of process.stdin);
  prices.close();
  client.close();
  await Promise.all([hanging, reading]);`;

describe('the published client', () => {
  const running = onceForSuite(startServices);

  it('is one module of at most 9 kB, compressed, even unminified', () => {
    const code = readFileSync(`${projectFolder}/dist/www/tasks/client.js`, 'utf8');
    expect(code).to.not.match(/^import |\/\*\*|\bfrom '/m);
    expect(gzipSync(code, { level: 9 }).length).to.be.at.most(9 * 1024);
  });

  it('can be imported from both services by pages of any origin', async () => {
    for (const service of [running().ticker, running().tasks]) {
      const { status, headers, body } = await request(`${service}/client.js`);
      expect([status, headers.get('access-control-allow-origin')]).to.deep.equal([200, '*']);
      expect(headers.get('content-type')).to.match(/javascript/);
      expect(body).to.include('TaskClient');
    }
    expect((await request(`${running().tasks}/client/task-client.d.ts`)).status).to.equal(404);
  });

  for (const node of new Set([process.execPath, oldNode() ?? process.execPath])) {
    it(`lets a program end once it has closed its clients, also if nothing answers: ${node}`, async () => {
      const [ticker, tasks] = [await severable(running().ticker), await severable(running().tasks)];
      const args = ['--input-type=module', '--eval', program, ticker.url, tasks.url, running().apiKey];
      const { child, exited, output, errors } = watch(spawn(node, args));
      await new Promise((resolve) => child.stdout?.once('data', resolve));
      ticker.stall();
      tasks.stall();
      child.stdin?.end();
      const closedAt = performance.now();
      expect(await exited, errors()).to.include({ code: 0 });
      expect(errors()).to.equal('own\n');
      expect(output()).to.equal('BTC-USD A\nthe client is closed\n');
      expect(performance.now() - closedAt).to.be.below(8000);
    });
  }
});
