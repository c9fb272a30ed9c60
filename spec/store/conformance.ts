import { describeCallbacks } from './callbacks.ts';
import { describeDeadLetters } from './dead-letters.ts';
import { describeDelivering } from './delivering.ts';
import { describeLimits } from './limits.ts';
import { describeReading } from './reading.ts';
import { describeRetention } from './retention.ts';
import { describeSchedules } from './schedules.ts';
import { describeSettling } from './settling.ts';
import { type Driver, testsOf } from './stage.ts';
import { describeSubmitting } from './submitting.ts';

export function describeStore(name: string, driver: Driver): void {
  const tests = testsOf(driver);
  describe(`${name} as a task store`, () => {
    describeSubmitting(tests);
    describeDelivering(tests);
    describeSettling(tests);
    describeLimits(tests);
    describeSchedules(tests);
    describeDeadLetters(tests);
    describeCallbacks(tests);
    describeReading(tests);
    describeRetention(tests);
  });
}
