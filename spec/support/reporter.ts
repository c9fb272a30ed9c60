/** Mocha's `spec` reporter, which also lists the files that took longest. */
import Mocha from 'mocha';

const { EVENT_HOOK_END, EVENT_RUN_END, EVENT_TEST_END } = Mocha.Runner.constants;
const LISTED = 10;

class SlowestFiles extends Mocha.reporters.Spec {
  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    const durations = new Map<string, number>();
    const count = ({ file, duration }: Mocha.Runnable) => {
      if (file !== undefined) durations.set(file, (durations.get(file) ?? 0) + (duration ?? 0));
    };
    runner.on(EVENT_TEST_END, count);
    runner.on(EVENT_HOOK_END, count);
    runner.once(EVENT_RUN_END, () => {
      const slowest = [...durations].sort(([, one], [, other]) => other - one).slice(0, LISTED);
      for (const [file, ms] of slowest)
        console.log(`${(ms / 1000).toFixed(1).padStart(8)} s  ${file.slice(process.cwd().length + 1)}`);
    });
  }
}

export { SlowestFiles as 'module.exports' };
