import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const mustRun = process.env.CI === 'true';
const hasNats = ['/usr/sbin/nats-server', '/usr/bin/nats-server', '/usr/local/bin/nats-server'].some(existsSync);
const hasPostgres = existsSync('/usr/lib/postgresql') && listens('/var/run/postgresql/.s.PGSQL.5432');

/** A suite that needs the program `nats-server`: pending on a machine without it, but never in CI. */
export function describeWithNats(title: string, define: () => void): void {
  describeWith(hasNats ? undefined : 'there is no nats-server on this machine', title, define);
}

/** A suite that needs PostgreSQL, its programs and a server: pending on a machine without it, but never in CI. */
export function describeWithPostgres(title: string, define: () => void): void {
  describeWith(hasPostgres ? undefined : 'PostgreSQL does not run on this machine', title, define);
}

/** A suite that needs both. */
export function describeWithServers(title: string, define: () => void): void {
  const reason = hasNats && hasPostgres ? undefined : 'there is no nats-server, or PostgreSQL, on this machine';
  describeWith(reason, title, define);
}

function describeWith(lacking: string | undefined, title: string, define: () => void): void {
  const pending = lacking !== undefined && !mustRun;
  describe(pending ? `${title} (pending: ${lacking})` : title, () => {
    before(function () {
      if (pending) this.skip();
    });
    define();
  });
}

function listens(socket: string): boolean {
  if (!existsSync(socket)) return false;
  try {
    execFileSync('psql', ['postgres://root@127.0.0.1:5432/postgres', '-c', 'SELECT 1'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
