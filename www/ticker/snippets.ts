/** Stands for the user's token in the code snippets, which never show the real token. */
export const TOKEN_PLACEHOLDER = 'YOUR_TOKEN';

export type SnippetName = 'wscat' | 'browser' | 'node' | 'python';

const streamUrl = (origin: string): string => `${origin.replace(/^http/, 'ws')}/ws/ticker`;

const shellWord = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

export const tokenCommand = (origin: string): string =>
  `curl ${shellWord(`${origin}/auth/token`)} -d '{"api_key": "YOUR_API_KEY"}'`;

/** Example clients of the price stream, as functions of the service's origin. */
export const snippets: Readonly<Record<SnippetName, (origin: string) => string>> = {
  wscat: (origin) => `TOKEN=${TOKEN_PLACEHOLDER}
npx wscat -c ${shellWord(streamUrl(origin))} -s ticker.v1 -s "bearer.$TOKEN"
`,
  browser: (origin) => `// In a page of any origin
const token = '${TOKEN_PLACEHOLDER}';
const socket = new WebSocket(${JSON.stringify(streamUrl(origin))}, ['ticker.v1', \`bearer.\${token}\`]);
socket.onmessage = ({ data }) => {
  const message = JSON.parse(data);
  if (message.type === 'ticker') for (const { symbol, price } of message.data) console.log(symbol, price);
};
socket.onclose = ({ code, reason }) => console.log('closed:', code, reason);
`,
  node: (origin) => `// client.mjs, for Node 22 or later
const token = '${TOKEN_PLACEHOLDER}';
const socket = new WebSocket(${JSON.stringify(streamUrl(origin))}, ['ticker.v1', \`bearer.\${token}\`]);
socket.onmessage = ({ data }) => console.log(data);
socket.onclose = ({ code, reason }) => console.error('closed:', code, reason);
`,
  python: (origin) => `# client.py, with the package websockets: pip install websockets
import asyncio
import websockets

TOKEN = "${TOKEN_PLACEHOLDER}"
URL = ${JSON.stringify(streamUrl(origin))}

async def main():
    async with websockets.connect(URL, subprotocols=["ticker.v1", f"bearer.{TOKEN}"]) as socket:
        async for text in socket:
            print(text, flush=True)

asyncio.run(main())
`,
};
