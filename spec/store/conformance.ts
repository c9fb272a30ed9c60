import { describeBatches } from './batches.ts';
import { describeCallbacks } from './callbacks.ts';
import { describeCancelling } from './cancelling.ts';
import { describeClosing } from './closing.ts';
import { describeDeadLetters } from './dead-letters.ts';
import { describeDeaths } from './deaths.ts';
import { describeFinding } from './finding.ts';
import { describeIdempotency } from './idempotency.ts';
import { describeLimits } from './limits.ts';
import { describePausing } from './pausing.ts';
import { describePublishing } from './publishing.ts';
import { describeRetries } from './retries.ts';
import { describeRounds } from './rounds.ts';
import { describeRows } from './rows.ts';
import { describeSchedules } from './schedules.ts';
import { describeScheduling } from './scheduling.ts';
import { describeSearching } from './searching.ts';
import { describeSettling } from './settling.ts';
import { type Driver, testsOf } from './stage.ts';
import { describeTaking } from './taking.ts';
import { describeViews } from './views.ts';

/** Defines the conformance specs of a task store. */
export function describeStore(name: string, driver: Driver): void {
  const tests = testsOf(driver);
  describe(`${name} as a task store`, () => {
    describePublishing(tests);
    describeBatches(tests);
    describeTaking(tests);
    describeSettling(tests);
    describeRetries(tests);
    describeScheduling(tests);
    describeRounds(tests);
    describeLimits(tests);
    describeSchedules(tests, driver);
    describeDeadLetters(tests);
    describeCancelling(tests);
    describeCallbacks(tests, driver);
    describeSearching(tests);
    describePausing(tests);
    describeIdempotency(tests);
    describeFinding(tests);
    if (driver.isDurable) describeDeaths(tests);
    describeRows(tests, driver);
    describeViews(tests);
    describeClosing(tests);
  });
}
