import { expect } from 'chai';
import { peakResidentBytes } from '../support/proc.ts';
import { startServices } from '../support/program.ts';
import { connectRaw, parseResponse } from '../support/raw-connection.ts';

const MIB = 1024 * 1024;

describe('hostile request bodies', () => {
  it('cost the memory of their bytes, even in small chunks', async () => {
    const services = await startServices();
    const port = Number(new URL(services.tasks).port);
    const pid = services.child.pid as number;
    const before = peakResidentBytes(pid);
    const text = `{"action":"${'x'.repeat(MIB / 2)}"}`;
    const chunks = `${text.replaceAll(/.{1,16}/g, (part) => `${part.length.toString(16)}\r\n${part}\r\n`)}0\r\n\r\n`;
    const submit = async () => {
      const lines = ['POST /tasks HTTP/1.1', 'Host: localhost', 'Connection: close', 'Transfer-Encoding: chunked'];
      const connection = await connectRaw(port, ...lines);
      connection.socket.write(chunks);
      expect(parseResponse(await connection.ended).status).to.equal(202);
    };
    await Promise.all(Array.from({ length: 2 }, submit));
    expect(peakResidentBytes(pid) - before).to.be.at.most(192 * MIB);
  });
});
