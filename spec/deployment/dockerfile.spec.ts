import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { ValidationSeverity, validate } from 'dockerfile-utils';
import { defaults } from '../../main/config.ts';
import { projectFolder } from '../support/program.ts';
import { dockerfileText, environment, last, type Stage, stages } from './dockerfile.ts';

const read = (file: string) => readFileSync(join(projectFolder, file), 'utf8');

describe('the Dockerfile', () => {
  const [build, image] = stages() as [Stage, Stage];

  it('passes the linter', () => {
    const problems = validate(dockerfileText, {
      deprecatedMaintainer: ValidationSeverity.ERROR,
      directiveCasing: ValidationSeverity.ERROR,
      emptyContinuationLine: ValidationSeverity.ERROR,
      instructionCasing: ValidationSeverity.ERROR,
      instructionCmdMultiple: ValidationSeverity.ERROR,
      instructionEntrypointMultiple: ValidationSeverity.ERROR,
      instructionHealthcheckMultiple: ValidationSeverity.ERROR,
      instructionJSONInSingleQuotes: ValidationSeverity.ERROR,
      instructionWorkdirRelative: ValidationSeverity.ERROR,
    });
    expect(problems.map(({ message }) => message)).to.deep.equal([]);
  });

  it('takes the very Node that package.json names, on glibc', () => {
    const { dependencies } = JSON.parse(read('package.json'));
    for (const { base } of [build, image]) expect(base).to.match(new RegExp(`^node:${dependencies.node}-\\w+-slim$`));
  });

  it('takes into the image what the services run on, and nothing else', () => {
    const copies = image.steps.filter(({ keyword }) => keyword === 'COPY');
    expect(copies.map(({ flags }) => flags.from)).to.deep.equal(copies.map(() => build.name));
    expect(copies.map((step) => step.arguments[0])).to.deep.equal([
      '/app/package.json',
      '/app/node_modules',
      '/app/dist',
      '/data',
    ]);
    expect(image.steps.filter(({ keyword }) => ['RUN', 'ADD'].includes(keyword))).to.deep.equal([]);
  });

  it('runs without privileges under a fixed number, which owns the data', () => {
    const [user] = last(image, 'USER').arguments;
    expect(user).to.match(/^[1-9]\d{3,}:[1-9]\d{3,}$/);
    expect(image.steps.find(({ flags }) => flags.chown !== undefined)?.flags.chown).to.equal(user);
    expect(last(image, 'VOLUME').arguments).to.deep.equal([environment(image).DATA_DIR]);
  });

  it('gives signals and checks to Node itself', () => {
    expect(last(image, 'CMD')).to.deep.include({ exec: true, arguments: ['node', 'dist/main'] });
    expect(last(image, 'STOPSIGNAL').arguments).to.deep.equal(['SIGTERM']);
    expect(dockerfileText).to.match(/^HEALTHCHECK .* CMD \["node", "dist\/main", "healthcheck", "\/healthz"\]$/m);
  });

  it('exposes the ports of the defaults', () => {
    const ports = [defaults.tasks.port, defaults.ticker.port, 9464].map(String);
    expect(last(image, 'EXPOSE').arguments).to.deep.equal(ports);
  });

  it('sees only what it is built of: whatever git ignores stays out', () => {
    const [all, ...taken] = read('.dockerignore').trim().split('\n');
    expect(all).to.equal('*');
    const ignored = read('.gitignore').trim().split('\n');
    for (const line of taken) {
      expect(line).to.match(/^![\w.-]+$/);
      expect(ignored).to.not.include(`${line.slice(1)}/`);
    }
    expect(taken).to.include.members(['!main', '!workers', '!db', '!www', '!package-lock.json']);
  });
});
