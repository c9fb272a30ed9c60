import Type, { type TProperties } from 'typebox';
import project from '../../package.json' with { type: 'json' };
import { defaultSymbols, type TickerSymbol } from '../../workers/symbols.ts';
import { defaults } from '../config.ts';
import { type CloseCode, closeCodes } from '../ticker/close-codes.ts';
import { mapValues } from './map-values.ts';
import { strict, unixSeconds } from './task-schemas.ts';
import { securitySchemes as openApiSchemes } from './ticker-paths.ts';

const messages = {
  welcome: message(
    'welcome',
    'Sent once, when the client has joined.',
    { user_id: Type.String() },
    { user_id: 'user:demo' },
  ),
  ticker: tickerMessage(defaultSymbols),
  pong: message('pong', 'The response to a ping.'),
  ping: {
    ...message('ping', 'Requests a pong. Other fields and all other messages are ignored.'),
    payload: Type.Object({ type: Type.Literal('ping') }),
  },
};

/** OpenAPI's type `apiKey` is called `httpApiKey` in AsyncAPI. */
const securitySchemes = mapValues(openApiSchemes, (scheme) => {
  return { ...scheme, type: scheme.type === 'apiKey' ? 'httpApiKey' : scheme.type };
});

const document = {
  asyncapi: '3.0.0',
  info: {
    title: 'Price stream',
    version: project.version,
    description: [
      'A WebSocket with JSON messages in text frames. The server closes it with one of these codes:',
      '',
      '| code | reason | reconnect? |',
      '|---|---|---|',
      ...Object.entries(closeCodes).map(row),
      '',
      'A client that does not answer a protocol ping within 30 s is disconnected without a code.',
    ].join('\n'),
    license: { name: project.license, url: `https://spdx.org/licenses/${project.license}.html` },
  },
  defaultContentType: 'application/json',
  servers: {
    ticker: {
      host: `localhost:${defaults.ticker.port}`,
      protocol: 'ws',
      description: 'service A, the ticker',
      security: Object.keys(securitySchemes).map((name) => ({ $ref: `#/components/securitySchemes/${name}` })),
    },
  },
  channels: {
    ticker: {
      address: '/ws/ticker',
      title: 'The price stream',
      description: 'See `openapi.json` for the responses to the handshake.',
      servers: [{ $ref: '#/servers/ticker' }],
      messages: mapValues(messages, (_, name) => ({ $ref: `#/components/messages/${name}` })),
      bindings: { ws: { method: 'GET', bindingVersion: '0.1.0' } },
    },
  },
  operations: {
    greet: operation('send', 'Welcomes a client that has joined', 'welcome'),
    tick: operation('send', 'Sends the prices', 'ticker'),
    answer: operation('receive', 'Receives a ping and responds with a pong', 'ping', 'pong'),
  },
  components: {
    messages,
    securitySchemes,
  },
};

/** Returns the AsyncAPI 3.0 document of the price stream for `symbols`. */
export function asyncApi(symbols: readonly TickerSymbol[] = defaultSymbols) {
  const { components } = document;
  return { ...document, components: { ...components, messages: { ...messages, ticker: tickerMessage(symbols) } } };
}

function tickerMessage(symbols: readonly TickerSymbol[]) {
  const decimals = Math.max(...symbols.map((each) => each.decimals));
  const names = symbols.map(({ symbol }) => symbol);
  const price = Type.Object(
    {
      symbol: Type.Enum(names, { type: 'string' }),
      price: Type.Number({
        exclusiveMinimum: 0,
        description: `with at most ${decimals === 2 ? 'two' : decimals} decimal places`,
      }),
      timestamp: unixSeconds,
    },
    strict,
  );
  return message(
    'ticker',
    'All prices, in any order: one message after the welcome, then one every second.',
    { data: Type.Array(price, { minItems: symbols.length, maxItems: symbols.length }) },
    { data: symbols.map((each) => ({ symbol: each.symbol, price: each.price, timestamp: 1_790_000_000 })) },
  );
}

function message(name: string, summary: string, fields: TProperties = {}, example: object = {}) {
  const payload = Type.Object({ type: Type.Literal(name), ...fields }, strict);
  const examples = [{ payload: { type: name, ...example } }];
  return { name, title: name, summary, contentType: 'application/json', payload, examples };
}

function operation(action: 'send' | 'receive', summary: string, name: string, reply?: string) {
  const channel = { $ref: '#/channels/ticker' };
  const of = (each: string) => [{ $ref: `#/channels/ticker/messages/${each}` }];
  return {
    action,
    channel,
    summary,
    messages: of(name),
    ...(reply !== undefined && { reply: { channel, messages: of(reply) } }),
  };
}

/** Formats a row of the table of close codes. A code without a reason text is described by its name. */
function row([name, { code, reason, reconnect }]: [string, CloseCode]): string {
  const why = reason || name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return `| ${code} | ${why} | ${reconnect ? 'yes' : 'no'} |`;
}
