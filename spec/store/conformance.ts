import { describeBatches } from './batches.ts';
import { describeCancelling } from './cancelling.ts';
import { describeClosing } from './closing.ts';
import { describeCounts } from './counts.ts';
import { describeDeadLetters } from './dead-letters.ts';
import { describeDeaths } from './deaths.ts';
import { describeFinding } from './finding.ts';
import { describeIdempotency } from './idempotency.ts';
import { describePausing } from './pausing.ts';
import { describePublishing } from './publishing.ts';
import { describeRetries } from './retries.ts';
import { describeScheduling } from './scheduling.ts';
import { describeSettling } from './settling.ts';
import { type Driver, freshFrom } from './stage.ts';
import { describeTaking } from './taking.ts';

/** Defines the conformance specs of a task store. */
export function describeStore(name: string, driver: Driver): void {
  const fresh = freshFrom(driver);
  describe(`${name} as a task store`, () => {
    describePublishing(fresh);
    describeBatches(fresh);
    describeTaking(fresh);
    describeSettling(fresh);
    describeRetries(fresh);
    describeScheduling(fresh);
    describeDeadLetters(fresh);
    describeCancelling(fresh);
    describePausing(fresh);
    describeIdempotency(fresh);
    describeFinding(fresh);
    describeCounts(fresh, driver);
    if (driver.isDurable) describeDeaths(fresh);
    describeClosing(fresh);
  });
}
