#!/usr/bin/env node
/** Program entry point. Uses only syntax that Node 12 can parse, so that an old Node.js prints the required version. */
if (Number.parseInt(process.versions.node, 10) < 18) {
  console.error(`Node 18 or newer is needed, this is ${process.versions.node}: install it from https://nodejs.org`);
  process.exitCode = 1;
} else {
  void main();
}

/** Runs the services, or the program that the first argument names, with a Node.js that is new enough. */
async function main(): Promise<void> {
  // Without a listener, Node.js starts its inspector on SIGUSR1.
  process.on('SIGUSR1', () => {});
  const { runWithInstalledNode, runtimeIsNewEnough } = await import('./process/runtime.ts');
  const [name] = process.argv.slice(2);
  if (!runtimeIsNewEnough()) {
    await runWithInstalledNode();
  } else if (name === undefined || (name === '--watch' && process.argv.length === 3)) {
    const { serve } = await import('./process/serve.ts');
    await serve({ watch: name !== undefined });
  } else {
    const { runProgram } = await import('./cli/programs.ts');
    await runProgram(name);
  }
}
