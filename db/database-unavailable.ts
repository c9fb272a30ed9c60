/** Thrown if a database file cannot be opened, or if a database server does not answer. */
export class DatabaseUnavailable extends Error {
  override name = 'DatabaseUnavailable';
}
