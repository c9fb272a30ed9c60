import { embeddedDrivers } from '../../main/config.ts';
import { itLeavesNothingBehind } from './load.ts';

const minutes = Number(process.env.SOAK_MINUTES ?? 10);

describe(`a load of everything, valid and invalid, for ${minutes} minutes`, () => {
  for (const driver of embeddedDrivers) itLeavesNothingBehind(driver, { minutes, rounds: 6, readers: 200 });
});
