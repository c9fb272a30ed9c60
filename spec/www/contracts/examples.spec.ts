import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { describePrices } from '../../../main/admin/api-documents.ts';
import { defaults } from '../../../main/config.ts';
import { catalogue } from '../../../main/http/errors.ts';
import type { QueueEvent } from '../../../main/tasks/task-events.ts';
import { streamErrors } from '../../../main/ticker/connection-handler.ts';
import { closeCodes } from '../../../main/ticker/pid-registry.ts';
import { defaultSymbols, MAX_SYMBOLS } from '../../../workers/shared/symbols.ts';
import { asyncApi, events, mismatch, openApi, resolve, responsesIn, sentMessages } from '../../support/contract.ts';
import { lint } from '../../support/lint-document.ts';
import { projectFolder } from '../../support/program.ts';

type Node = Record<string, unknown>;

/** Yields every object of a document that satisfies `fits`, with its path. */
function* find(node: unknown, fits: (node: Node) => boolean, path = '#'): Generator<[string, Node]> {
  if (typeof node !== 'object' || node === null) return;
  if (fits(node as Node)) yield [path, node as Node];
  for (const [key, value] of Object.entries(node)) yield* find(value, fits, `${path}/${key.replaceAll('/', '~1')}`);
}

const guide = readFileSync(join(projectFolder, 'www/guide/errors.md'), 'utf8');

/** Returns the cells of the guide's table rows that begin with a number in this range. */
function guideRows(from: number, to: number): string[][] {
  const rows = guide.matchAll(/^\| (\d+ \|.*)\|$/gm);
  const cells = Array.from(rows, ([, row = '']) => row.split('|').map((cell) => cell.trim().replaceAll('`', '')));
  return cells.filter(([code]) => Number(code) >= from && Number(code) <= to);
}

describe('the API documents', () => {
  it('pass the linter, also with the largest number of symbols', async () => {
    expect(await lint('openapi', openApi)).to.deep.equal([]);
    const symbols = Array.from({ length: MAX_SYMBOLS }, (_, index) => ({ symbol: `S${index}`, price: 1, decimals: 8 }));
    for (const document of [asyncApi, describePrices(asyncApi, symbols)])
      expect(await lint('asyncapi', document)).to.deep.equal([]);
  });

  it('have only examples that match their schemas', () => {
    const schemas = [...find(openApi, ({ examples }) => Array.isArray(examples))];
    for (const [path, schema] of schemas)
      for (const example of schema.examples as unknown[]) expect(mismatch(schema, example), path).to.equal(undefined);
    expect(schemas.length).to.be.above(50);
    const [stream] = find(openApi.paths, (node) => 'x-events' in node && 'example' in node);
    const [, name = '', data = ''] = /\nevent: (.+)\ndata: (.+)\n\n$/.exec(String(stream?.[1].example)) ?? [];
    expect(events).to.have.property(name);
    expect(mismatch(events[name] ?? {}, JSON.parse(data)), name).to.equal(undefined);

    // An AsyncAPI message also has `examples`, but those are objects with a payload, not values.
    for (const [name, { payload, examples }] of Object.entries(asyncApi.components.messages)) {
      expect(examples, name).to.have.length(1);
      for (const example of examples) expect(mismatch(payload, example.payload), name).to.equal(undefined);
    }
  });

  it('describe the prices of the configured symbols, and no others', () => {
    const own = ['DOGE-USD', 'XRP-USD', 'ADA-USD'];
    const symbols = own.map((symbol) => ({ symbol, price: 0.08123, decimals: 5 })).concat(defaultSymbols.slice(0, 1));
    const { messages } = describePrices(asyncApi, symbols).components;
    const problem = (...names: string[]) => {
      const data = names.map((symbol) => ({ symbol, price: 1, timestamp: 0 }));
      return mismatch(messages.ticker?.payload ?? {}, { type: 'ticker', data });
    };
    expect(problem(...own, 'BTC-USD')).to.equal(undefined);
    for (const wrong of [['ETH-USD'], [], ['BTC-USD', 'BTC-USD']])
      expect(problem(...own, ...wrong), wrong.join()).to.be.a('string');
    for (const name of ['ticker', 'numberedTicker', 'numberedWelcome'])
      expect(mismatch(messages[name]?.payload ?? {}, messages[name]?.examples[0]?.payload), name).to.equal(undefined);
    for (const name of ['ticker', 'numberedTicker'])
      expect(JSON.stringify(messages[name]?.payload), name).to.include('at most 5 decimal places');
  });

  it('describe every message and event, and no others', () => {
    const { 'ticker.v1': first = {}, 'ticker.v2': second = {} } = sentMessages;
    expect(first).to.have.all.keys('welcome', 'ticker', 'pong');
    expect(second).to.have.all.keys('welcome', 'ticker', 'pong', 'gap', 'error');
    const all = [...Object.values(first), ...Object.values(second), 'ping', 'subscribe', 'resume'];
    expect(asyncApi.components.messages).to.have.all.keys(...new Set(all));
    expect(asyncApi.components.messages.error?.payload)
      .to.have.nested.property('properties.error.enum')
      .with.members(Object.values(streamErrors));
    const names = {
      ...{ accepted: 1, scheduled: 1, started: 1, progress: 1, retrying: 1, completed: 1, failed: 1, cancelled: 1 },
      ...{ purged: 1, paused: 1, resumed: 1, gap: 1 },
    } satisfies Record<QueueEvent['event'] | 'gap', 1>;
    expect(events).to.have.all.keys(names);
  });

  it('and the guide have every error of the catalogue, with its status, and no others', () => {
    type ErrorSchema = { properties?: { error?: { enum: string[] } } } | undefined;
    const described = new Set<string>();
    for (const [status, reference] of Object.values(openApi.paths).flatMap(responsesIn).flatMap(Object.entries)) {
      const { description = '', content } = resolve(reference) ?? {};
      for (const text of (content?.['application/json']?.schema as ErrorSchema)?.properties?.error?.enum ?? []) {
        described.add(`${status} ${text}`);
        expect(description, status).to.include(`\`${text}\``);
      }
    }
    const answered = Object.values(catalogue).map(([status, text]) => `${status} ${text}`);
    expect([...described]).to.have.members(answered);
    const advised = guideRows(400, 599).filter(([, , advice = '']) => /\w{2}/.test(advice));
    expect(advised.map(([status, text]) => `${status} ${text}`)).to.have.members(answered);
  });

  it('and the guide have every close code, with whether to reconnect, and no others', () => {
    const inDocument = asyncApi.info.description.matchAll(/^\| (\d+) \| (?:`(.+?)` )?\| (yes|no) \| [\w`]/gm);
    const inGuide = guideRows(1000, 4999).map(([code, reason, again = '']) => ['', code, reason, again.slice(0, 3)]);
    const all = Object.values(closeCodes).map(({ code, reason, reconnect }) => [code, reason, reconnect]);
    for (const rows of [[...inDocument], inGuide]) {
      const codes = rows.map(([, code, reason = '', again]) => [Number(code), reason, again === 'yes']);
      expect(codes).to.have.deep.members(all);
    }
  });

  it('name the default ports', () => {
    const ports = openApi.servers.map((server) => [server['x-name'], Number(server.url.split(':').at(-1))]);
    const { ticker, tasks, admin } = defaults;
    expect(Object.fromEntries(ports)).to.deep.equal({ ticker: ticker.port, tasks: tasks.port, admin: admin.port });
    expect(asyncApi.servers.ticker.host).to.equal(`localhost:${ticker.port}`);
  });
});
