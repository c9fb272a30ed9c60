import { expect } from 'chai';
import { asyncApi } from '../../main/contracts/asyncapi.ts';
import { openApi } from '../../main/contracts/openapi.ts';
import { catalogue } from '../../main/http/errors.ts';
import { checkEvent, checkFrame, mismatch } from '../support/contract.ts';

type Node = Record<string, unknown>;

const stream = asyncApi();

/** Yields every object of a document that satisfies `fits`, with its path. */
function* find(node: unknown, fits: (node: Node) => boolean, path = '#'): Generator<[string, Node]> {
  if (typeof node !== 'object' || node === null) return;
  if (fits(node as Node)) yield [path, node as Node];
  for (const [key, value] of Object.entries(node)) yield* find(value, fits, `${path}/${key.replaceAll('/', '~1')}`);
}

describe('The contracts', () => {
  it('have only examples that hold to their schemas', () => {
    // An AsyncAPI message also has `examples`, but those are objects with a payload, not values.
    const schemas = [...find(openApi, ({ examples }) => Array.isArray(examples))];
    for (const [path, schema] of schemas) {
      for (const example of schema.examples as unknown[]) expect(mismatch(schema, example), path).to.equal(undefined);
    }
    expect(schemas.length).to.be.above(50);

    const messages = Object.entries(stream.components.messages);
    for (const [name, { payload, examples }] of messages) {
      for (const example of examples) expect(mismatch(payload, example.payload), name).to.equal(undefined);
    }
    expect(messages.map(([name]) => name)).to.have.members(['welcome', 'ticker', 'pong', 'ping']);
    for (const name of ['welcome', 'ticker', 'pong'] as const) {
      checkFrame(JSON.stringify(stream.components.messages[name].examples[0]?.payload));
    }
  });

  it('describe the prices of the configured symbols, and no others', () => {
    const symbols = [
      { symbol: 'DOGE-USD', price: 0.08123, decimals: 5 },
      { symbol: 'BTC-USD', price: 42_000, decimals: 2 },
    ];
    const frame = (...names: string[]) =>
      JSON.stringify({ type: 'ticker', data: names.map((symbol) => ({ symbol, price: 1, timestamp: 0 })) });
    checkFrame(frame('DOGE-USD', 'BTC-USD'), symbols);
    expect(() => checkFrame(frame('DOGE-USD', 'ETH-USD'), symbols)).to.throw('not as described');
    expect(() => checkFrame(frame('DOGE-USD'), symbols)).to.throw('not as described');
    const { examples, payload } = asyncApi(symbols).components.messages.ticker;
    expect(mismatch(payload, examples[0]?.payload)).to.equal(undefined);
    expect(JSON.stringify(payload)).to.include('at most 5 decimal places');
  });

  it('show an event as it comes over the wire', () => {
    const streams = [...find(openApi, (node) => 'x-events' in node && 'example' in node)];
    expect(streams).to.have.length(1);
    const [, name = '', data = ''] = /\nevent: (.+)\ndata: (.+)\n\n$/.exec(String(streams[0]?.[1].example)) ?? [];
    checkEvent(name, data);
  });

  it('name every error of the catalogue', () => {
    const texts = [...find(openApi, ({ error }) => typeof error === 'object')].flatMap(
      ([, { error }]) => (error as { enum: string[] }).enum,
    );
    expect(new Set(texts)).to.deep.equal(new Set(Object.values(catalogue).map(([, text]) => text)));
  });

  it('list every close code', () => {
    for (const code of [1001, 1002, 1007, 1008, 1009, 1011, 4001, 4003, 4008, 4029]) {
      expect(stream.info.description).to.match(new RegExp(`^\\| ${code} \\| [a-zA-Z ]+ \\| (yes|no) \\|$`, 'm'));
    }
  });
});
