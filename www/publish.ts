/**
 * Copies the static files to `dist/www` after the TypeScript build, with Brotli and gzip copies of all text files, and
 * the API documents as JSON, puts shared parts where a comment of a page names them, and joins the modules of the client.
 */
import { cpSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { addModulePreloads, joinModules, writeVendor } from './modules.ts';
import { readContract } from './read-contract.ts';

const sources = fileURLToPath(new URL('.', import.meta.url));
const target = fileURLToPath(new URL('../dist/www/', import.meta.url));

/** Leaves out the sources of modules, and the parts of the pages. */
const filter = (file: string) => !/\.tsx?$|www\/shared\/[^/]+\.html$/.test(file);
for (const folder of ['shared', 'ticker', 'tasks']) {
  cpSync(`${sources}${folder}`, `${target}${folder}`, { recursive: true, filter });
}
writeVendor(target);

// One module, so that a project without a build can copy it.
const joined = joinModules('/client.js', (path) => target + path.slice(1));
for (const service of ['ticker', 'tasks']) {
  const page = `${target}${service}/index.html`;
  const fileOf = (path: string) => target + (/^\/(shared|client)\//.test(path) ? path.slice(1) : service + path);
  const parts = /<!-- (shared\/.+\.html) -->/g;
  const html = readFileSync(page, 'utf8').replace(parts, (_, path) => readFileSync(sources + path, 'utf8'));
  writeFileSync(page, addModulePreloads(html, fileOf));
  writeFileSync(`${target}${service}/client.js`, joined);
}

// Indentation can be removed without a visible effect, because no `pre` element in the HTML files contains text.
for (const file of globSync(`${target}**/*.{html,css}`)) {
  const text = readFileSync(file, 'utf8').replace(/<!--.*?-->|\/\*.*?\*\//gs, '');
  writeFileSync(file, text.replace(/\s*\n\s*/g, '\n'));
}

// A module with a template literal of several lines is left as it is, because their indentation is text.
for (const file of globSync(`${target}{client,shared,tasks,ticker}/*.js`)) {
  const lines = readFileSync(file, 'utf8').split('\n');
  const hasLongTemplate = lines.some((line) => line.split('`').length % 2 === 0);
  if (!hasLongTemplate) writeFileSync(file, lines.map((line) => line.trimStart()).join('\n'));
}

for (const file of globSync(`${target}**/*.{html,css,js,svg}`)) {
  writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }));
  writeFileSync(`${file}.br`, brotliCompressSync(readFileSync(file)));
}

mkdirSync(`${target}contracts`, { recursive: true });
for (const name of ['openapi', 'asyncapi'] as const) {
  writeFileSync(`${target}contracts/${name}.json`, JSON.stringify(readContract(name)));
}
