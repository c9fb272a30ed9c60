/** A pool thread that ends while it stores the rows of its first batch. */
import { poolFunction } from '../../../workers/task-handler.ts';

export default poolFunction(
  () => {},
  () => process.exit(1),
);
