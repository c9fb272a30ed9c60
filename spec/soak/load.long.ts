import { embeddedDrivers } from '../../main/config.ts';
import { itLeavesNothingBehind } from './load.ts';

const minutes = Number(process.env.SOAK_MINUTES ?? 10);

describe(`a mixed load of valid and invalid requests for ${minutes} minutes`, () => {
  for (const driver of embeddedDrivers) itLeavesNothingBehind(driver, { minutes, rounds: 6, readers: 200 });
});
