const STATUS_LINE = /^HTTP\/1\.1 ([1-5]\d\d) [\x20-\x7e]+$/;
const HEADER =
  /^([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/;

/** Parses responses in latin1, none to HEAD. Returns them and the bytes after them. @throws if they are not HTTP */
export function parseResponses(wire: string) {
  const responses: { status: number; headers: Headers; body: string }[] = [];
  for (let rest = wire; ; ) {
    const end = rest.indexOf('\r\n\r\n');
    if (end < 0) return { responses, rest };
    const [statusLine = '', ...lines] = rest.slice(0, end).split('\r\n');
    const status = Number(STATUS_LINE.exec(statusLine)?.[1]);
    if (Number.isNaN(status)) throw new Error(`no status line: ${JSON.stringify(rest.slice(0, 200))}`);
    const headers = new Headers();
    for (const line of lines) {
      const [, name, value = ''] = HEADER.exec(line) ?? [];
      if (name === undefined) throw new Error(`no header: ${JSON.stringify(line)}`);
      headers.append(name, value);
    }
    const content = readBody(rest.slice(end + 4), status, headers);
    if (content === undefined) return { responses, rest };
    responses.push({ status, headers, body: Buffer.from(content.body, 'latin1').toString() });
    rest = content.rest;
  }
}

type Content = { body: string; rest: string };

/** Returns the body and the bytes after it, or undefined if the body is incomplete. */
function readBody(text: string, status: number, headers: Headers): Content | undefined {
  if (status < 200 || status === 204 || status === 304) return { body: '', rest: text };
  if (headers.get('transfer-encoding') === 'chunked') return readChunks(text);
  const told = headers.get('content-length');
  // The body lasts until the end of the connection, as in HTTP/1.0.
  if (told === null && headers.get('connection') === 'close') return { body: text, rest: '' };
  const length = Number(told ?? Number.NaN);
  if (!Number.isSafeInteger(length)) throw new Error(`a body of unknown length: ${JSON.stringify(text.slice(0, 200))}`);
  return text.length < length ? undefined : { body: text.slice(0, length), rest: text.slice(length) };
}

function readChunks(text: string): Content | undefined {
  let body = '';
  for (let rest = text; rest.includes('\r\n'); ) {
    const [size = ''] = rest.split('\r\n', 1);
    if (!/^[0-9a-f]+$/i.test(size)) throw new Error(`no chunk size: ${JSON.stringify(size)}`);
    const from = size.length + 2;
    const to = from + Number.parseInt(size, 16);
    if (rest.length < to + 2) return undefined;
    if (rest.slice(to, to + 2) !== '\r\n') throw new Error('a chunk does not end where it should');
    body += rest.slice(from, to);
    rest = rest.slice(to + 2);
    if (to === from) return { body, rest };
  }
  return undefined;
}
