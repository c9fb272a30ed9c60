import { spawn, spawnSync } from 'node:child_process';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { examples } from '../../support/examples.ts';
import { freePort } from '../../support/free-port.ts';
import { lackingPostgres, startPostgres } from '../../support/postgres-server.ts';
import { projectFolder, watch } from '../../support/program.ts';
import { describeWith, lackingProgram } from '../../support/requirements.ts';

const lacking = lackingProgram('psql') ?? lackingPostgres();

describeWith(lacking, 'the two nodes of the guide', () => {
  it('start, each list the tasks of the other, and stop', async () => {
    const postgres = await startPostgres();
    afterTest(() => postgres.remove());
    const { host, port: PGPORT } = new URL(postgres.url);
    const ports: Record<string, string> = {};
    for (const port of ['8080', '8081', '8082', '8083', '9464', '9465']) ports[port] = String(await freePort());
    const script = examples('www/guide/several-nodes.md', 'Two nodes on one machine')
      .join('')
      .replace('npm run setup && npm run build\n', '')
      .replaceAll(' dist/main', ` ${projectFolder}dist/main`)
      .replace('127.0.0.1:5432', host)
      .replaceAll(/\b(808[0-3]|946[45])\b/g, (port) => ports[port] ?? port);
    const { 8080: TASKS_PORT, 8081: TICKER_PORT, 9464: ADMIN_PORT } = ports;
    const own = { PGHOST: '127.0.0.1', PGPORT, PGUSER: 'spec', TICKER_PORT, TASKS_PORT, ADMIN_PORT };
    const options = { cwd: await temporaryFolder(), env: { ...process.env, ...own }, detached: true };
    const child = spawn('bash', ['-c', `set -e\nexec 2>&1\ntrap 'tail node*.log' ERR\n${script}`], options);
    const { exited, output } = watch(child);
    // The process group, which is empty if everything that the script started has ended.
    afterTest(() => spawnSync('kill', ['-KILL', '--', `-${child.pid}`]));
    expect(await exited, output()).to.include({ code: 0 });
    expect(output().match(/"status":"ready"/g), output()).to.have.length(2);
    const [, id] = /"id":"([0-9a-f-]{36})".*"status":"completed"/.exec(output()) ?? [];
    expect(output()).to.match(new RegExp(`"tasks":\\[\\{"id":"${id}".*"status":"completed"`));
  });
});
