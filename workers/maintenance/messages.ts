/** `workerData` of the migration thread: where the tables are. */
export type MigrationStart = { dataDir: string } | { databaseUrl: string };

/** `held` answers `hold`. `countExcess` asks for the number of rows beyond the newest `rows`. */
export type MainToMaintenance = { topic: 'held' } | { topic: 'countExcess'; rows: number };

/** The main thread must not write between its answer to `hold` and the next `resume`. */
export type MaintenanceToMain = { topic: 'hold' } | { topic: 'resume' } | { topic: 'excess'; excess: number };
