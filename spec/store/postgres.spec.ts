import { describeWithPostgres } from '../support/servers.ts';
import { describeStore } from './conformance.ts';
import { postgresDriver } from './postgres-driver.ts';

describeWithPostgres('PostgreSQL', () => describeStore('the driver', postgresDriver()));
