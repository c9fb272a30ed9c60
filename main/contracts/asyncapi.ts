import Type, { type TSchema } from 'typebox';
import project from '../../package.json' with { type: 'json' };
import { initialPrices, symbols } from '../../workers/symbols.ts';
import { defaults } from '../config.ts';
import { type CloseCode, closeCodes } from '../ticker/close-codes.ts';
import { SUBPROTOCOL } from '../ticker/token-auth.ts';
import { strict, unixSeconds } from './task-schemas.ts';

const price = Type.Object(
  {
    symbol: Type.Enum([...symbols], { type: 'string' }),
    price: Type.Number({ minimum: 0, description: 'with at most two decimal places' }),
    timestamp: unixSeconds,
  },
  strict,
);

const prices = symbols.map((symbol) => ({ symbol, price: initialPrices[symbol], timestamp: 1_790_000_000 }));

const messages = {
  welcome: message(
    'Sent once, when the client has joined.',
    Type.Object({ type: Type.Literal('welcome'), user_id: Type.String() }, strict),
    { type: 'welcome', user_id: 'user:demo' },
  ),
  ticker: message(
    'All prices, in any order: one message after the welcome, then one every second.',
    Type.Object(
      { type: Type.Literal('ticker'), data: Type.Array(price, { minItems: symbols.length, maxItems: symbols.length }) },
      strict,
    ),
    { type: 'ticker', data: prices },
  ),
  pong: message('The response to a ping.', Type.Object({ type: Type.Literal('pong') }, strict), { type: 'pong' }),
  ping: message(
    'Requests a pong. Other fields and all other messages are ignored.',
    Type.Object({ type: Type.Literal('ping') }),
    { type: 'ping' },
  ),
};

const securitySchemes = {
  bearer: { type: 'http', scheme: 'bearer', description: 'A token from `POST /auth/token`.' },
  subprotocol: {
    type: 'httpApiKey',
    in: 'header',
    name: 'Sec-WebSocket-Protocol',
    description: `For browsers: offer \`${SUBPROTOCOL}\` and \`bearer.<token>\`.`,
  },
  token: { type: 'httpApiKey', in: 'query', name: 'token', description: 'For tools that cannot set headers.' },
};

/** AsyncAPI 3.0 document: messages and close codes of the price stream. */
export const asyncApi = {
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
      host: `localhost:${defaults.tickerPort}`,
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
      messages: Object.fromEntries(
        Object.keys(messages).map((name) => [name, { $ref: `#/components/messages/${name}` }]),
      ),
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

function message(summary: string, payload: TSchema, example: { type: string; [field: string]: unknown }) {
  const { type: name } = example;
  return { name, title: name, summary, contentType: 'application/json', payload, examples: [{ payload: example }] };
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

/** Row of the table of close codes. Codes without a reason text are described by their name. */
function row([name, { code, reason, reconnect }]: [string, CloseCode]): string {
  const why = reason || name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return `| ${code} | ${why} | ${reconnect ? 'yes' : 'no'} |`;
}
