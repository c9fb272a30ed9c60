import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { validate } from 'dockerfile-utils';
import { defaults } from '../../main/config.ts';
import { projectFolder } from '../support/program.ts';

const read = (file: string) => readFileSync(join(projectFolder, file), 'utf8');

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
      ...{ COPY: [...copied, '--from=build --chown=10001:10001 /data /data'], RUN: [], ADD: [], USER: ['10001:10001'] },
      ...{
        ENV: ['NODE_ENV=production DATA_DIR=/data LOG_FORMAT=json'],
        VOLUME: ['["/data"]'],
        STOPSIGNAL: ['SIGTERM'],
      },
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
