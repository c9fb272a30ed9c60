/**
 * Says whether `npm test` was slower than it may be, independently of the machine's speed: compares its duration with
 * that of work of the same kind, a fixed number of starts of Node, four at a time as mocha runs spec files.
 *
 *     node spec/calibration.ts SECONDS_OF_NPM_TEST
 */
import { limits } from './limits.ts';
import { execute } from './support/command.ts';

const STARTS = 100;
const JOBS = 4;
/** Factor by which a busy machine may exceed the limit. */
const TOLERANCE = 1.5;

async function calibrate(): Promise<number> {
  const began = performance.now();
  let started = 0;
  const job = async () => {
    while (started++ < STARTS)
      await execute(process.execPath, ['--input-type=module', '--eval', "import 'koa'; import 'pino';"]);
  };
  await Promise.all(Array.from({ length: JOBS }, job));
  return (performance.now() - began) / 1000;
}

const seconds = Number(process.argv[2]);
const unit = await calibrate();
const ratio = seconds / unit;
const most = limits.testTime * TOLERANCE;
console.log(
  `npm test took ${seconds} s, ${ratio.toFixed(0)} times the calibration of ${unit.toFixed(1)} s; at most ${most}`,
);
if (!(ratio <= most)) process.exitCode = 1;
