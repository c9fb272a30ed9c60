import { describeStore } from './conformance.ts';
import { sqliteDriver } from './sqlite-driver.ts';

describeStore('the driver sqlite', sqliteDriver('sqlite'));
