import { readFileSync } from 'node:fs';
import { modulesFrom } from './module-preloads.ts';

/**
 * Returns one module in place of a module and all that it imports. The modules share a scope then, so their top-level
 * names must differ: otherwise the module does not load.
 */
export function joinModules(entry: string, fileOf: (path: string) => string): string {
  return modulesFrom(entry, fileOf)
    .map((path) => readFileSync(fileOf(path), 'utf8'))
    .map((text, index) => (index === 0 ? exportsOf(text) : declarationsOf(text)))
    .reverse()
    .join('');
}

/** Drops from where the entry exports names, because they are in the same module now. */
function exportsOf(text: string): string {
  return text.replaceAll(/^(export .*) from '[^']+';$/gm, '$1;');
}

function declarationsOf(text: string): string {
  return text.replaceAll(/^import .*;\n|^export {};\n|^export (?=async|class|const|function)/gm, '');
}
