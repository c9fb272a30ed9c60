import { expect } from 'chai';
import { hostCheck } from '../../main/http/host-header.ts';
import { connectRaw, handshake, parseResponse } from '../support/raw-connection.ts';
import { serve } from '../support/server.ts';

const always = ['localhost', 'localhost.', 'app.localhost', '127.0.0.1', '127.8.9.10', '[::1]', '10.0.0.1', '[::2]'];
const foreign = ['evil.example', 'localhost.evil.example', 'notlocalhost', '127.evil.example', '.'];

describe('the hosts that a listener answers to', () => {
  it('are loopback names and all addresses on loopback', () => {
    for (const address of ['127.0.0.1', '127.0.0.2', '::1']) {
      const isAllowed = hostCheck([], address);
      for (const host of always) expect(isAllowed(host), host).to.equal(true);
      for (const host of foreign) expect(isAllowed(host), host).to.equal(false);
    }
  });

  it('are all on another address unless some are set', () => {
    for (const address of ['0.0.0.0', '::', '10.0.0.1']) {
      for (const host of [...always, ...foreign]) expect(hostCheck([], address)(host), host).to.equal(true);
    }
  });

  it('are those that are set, loopback names and all addresses', () => {
    for (const address of ['0.0.0.0', '127.0.0.1']) {
      const isAllowed = hostCheck(['a.example'], address);
      for (const host of [...always, 'a.example']) expect(isAllowed(host), host).to.equal(true);
      for (const host of [...foreign, 'b.a.example']) expect(isAllowed(host), host).to.equal(false);
    }
    expect(hostCheck([], '127.0.1.1', 'Node-1')('node-1'), 'the configured name').to.equal(true);
    expect(hostCheck(['*'], '127.0.0.1')('evil.example')).to.equal(true);
  });

  it('get an answer, others 421 and the end of the connection, upgrades included', async () => {
    const { listener } = await serve((_request, response) => response.end('fine'), { allowedHosts: ['a.example'] });
    listener.server.on('upgrade', (request, socket) => {
      expect(request.headers.host).to.equal('a.example');
      socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\n');
    });
    const answer = async (host: string, first = 'GET / HTTP/1.1', ...rest: string[]) => {
      const raw = await connectRaw(listener.port, first, `Host: ${host}`, ...rest, 'Connection: close');
      const { status, body } = parseResponse(await raw.ended);
      return [status, body];
    };
    const [first, , ...upgrade] = handshake('/');
    for (const host of ['a.example', 'A.Example:80', `127.0.0.1:${listener.port}`, 'localhost', '[0:0::1]']) {
      expect((await answer(host))[0], host).to.equal(200);
    }
    for (const host of ['evil.example', `evil.example:${listener.port}`]) {
      expect(await answer(host), host).to.deep.equal([421, '{"error":"host not allowed"}\n']);
      expect(await answer(host, first, ...upgrade), host).to.deep.equal([421, '{"error":"host not allowed"}\n']);
    }
    expect((await answer('a.example', first, ...upgrade))[0]).to.equal(101);
    const without = await connectRaw(listener.port, 'GET / HTTP/1.0');
    expect(parseResponse(await without.ended).status).to.equal(200);
  });
});
