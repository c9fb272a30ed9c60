export interface WireResponse {
  status: number;
  headers: Map<string, string>;
  body: string;
}

const STATUS_LINE = /^HTTP\/1\.1 ([1-5]\d\d) [\x20-\x7e]+$/;
const HEADER =
  /^([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/;

/**
 * Parses all responses of a connection. Responses to HEAD are not supported.
 *
 * @param wire the connection's bytes in latin1
 * @returns the complete responses and the bytes after them
 * @throws {Error} if the bytes are not HTTP responses
 */
export function parseResponses(wire: string): { responses: WireResponse[]; rest: string } {
  const responses: WireResponse[] = [];
  for (let rest = wire; ; ) {
    const end = rest.indexOf('\r\n\r\n');
    if (end < 0) return { responses, rest };
    const [statusLine = '', ...lines] = rest.slice(0, end).split('\r\n');
    const status = Number(STATUS_LINE.exec(statusLine)?.[1]);
    if (Number.isNaN(status)) throw new Error(`no status line: ${JSON.stringify(rest.slice(0, 200))}`);
    const headers = new Map<string, string>();
    for (const line of lines) {
      const [, name, value = ''] = HEADER.exec(line) ?? [];
      if (name === undefined) throw new Error(`no header: ${JSON.stringify(line)}`);
      headers.set(name.toLowerCase(), value);
    }
    const content = readBody(rest.slice(end + 4), status, headers);
    if (content === undefined) return { responses, rest };
    responses.push({ status, headers, body: Buffer.from(content.body, 'latin1').toString() });
    rest = content.rest;
  }
}

/** Returns the body and the bytes after it, or undefined if the body is incomplete. */
function readBody(
  text: string,
  status: number,
  headers: Map<string, string>,
): { body: string; rest: string } | undefined {
  if (status < 200 || status === 204 || status === 304) return { body: '', rest: text };
  if (headers.get('transfer-encoding') === 'chunked') return readChunks(text);
  const told = headers.get('content-length');
  // The body lasts until the end of the connection, as in HTTP/1.0.
  if (told === undefined && headers.get('connection') === 'close') return { body: text, rest: '' };
  const length = Number(told ?? Number.NaN);
  if (!Number.isSafeInteger(length)) throw new Error(`a body of unknown length: ${JSON.stringify(text.slice(0, 200))}`);
  return text.length < length ? undefined : { body: text.slice(0, length), rest: text.slice(length) };
}

function readChunks(text: string): { body: string; rest: string } | undefined {
  let body = '';
  for (let at = 0; ; ) {
    const end = text.indexOf('\r\n', at);
    if (end < 0) return undefined;
    const size = text.slice(at, end);
    if (!/^[0-9a-f]+$/i.test(size)) throw new Error(`no chunk size: ${JSON.stringify(size)}`);
    const from = end + 2;
    const to = from + Number.parseInt(size, 16);
    if (text.length < to + 2) return undefined;
    if (text.slice(to, to + 2) !== '\r\n') throw new Error('a chunk does not end where it should');
    body += text.slice(from, to);
    at = to + 2;
    if (to === from) return { body, rest: text.slice(at) };
  }
}
