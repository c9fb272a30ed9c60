import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { examples } from '../../support/examples.ts';
import { freePort } from '../../support/free-port.ts';
import { lackingPostgres, startPostgres } from '../../support/postgres-server.ts';
import { projectFolder } from '../../support/program.ts';
import { describeWith, lackingProgram } from '../../support/requirements.ts';

/** Runs a script and everything that it starts in a process group of its own. Returns its exit code and output. */
async function run(script: string, env: Record<string, string>): Promise<[code: number | null, text: string]> {
  const cwd = await temporaryFolder();
  const options = { cwd, env: { ...process.env, ...env }, detached: true };
  const child = spawn('bash', ['-c', `set -e\nexec 2>&1\ntrap 'tail node*.log' ERR\n${script}`], options);
  afterTest(() => {
    try {
      process.kill(-(child.pid as number), 'SIGKILL');
    } catch {
      // Everything that the script started has ended.
    }
  });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  return [code, output];
}

const lacking = lackingProgram('psql') ?? lackingPostgres();

describeWith(lacking, 'the two nodes of the guide', () => {
  it('start, each list the tasks of the other, and stop', async () => {
    const postgres = await startPostgres();
    afterTest(() => postgres.remove());
    const ports = new Map<string, string>();
    for (const port of ['8080', '8081', '8082', '8083', '9464', '9465']) ports.set(port, String(await freePort()));
    const { port: postgresPort } = new URL(postgres.url);
    const script = examples('www/guide/several-nodes.md', 'Two nodes on one machine')
      .join('')
      .replace('npm run setup && npm run build\n', '')
      .replaceAll(' dist/main', ` ${projectFolder}dist/main`)
      .replace('127.0.0.1:5432', `127.0.0.1:${postgresPort}`)
      .replaceAll(/\b(808[0-3]|946[45])\b/g, (port) => ports.get(port) ?? port);
    const [code, output] = await run(script, {
      PGHOST: '127.0.0.1',
      PGPORT: postgresPort,
      PGUSER: 'spec',
      TICKER_PORT: ports.get('8081') ?? '',
      TASKS_PORT: ports.get('8080') ?? '',
      ADMIN_PORT: ports.get('9464') ?? '',
    });
    expect(code, output).to.equal(0);
    expect(output.match(/"status":"ready"/g), output).to.have.length(2);
    const [, id] = /"id":"([0-9a-f-]{36})".*"status":"completed"/.exec(output) ?? [];
    expect(output).to.match(new RegExp(`"tasks":\\[\\{"id":"${id}".*"status":"completed"`));
  });
});
