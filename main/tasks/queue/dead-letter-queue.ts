import type {
  BulkResult,
  DeadLetterFilter,
  DeadLetterOperations,
  DeadLetterReasons,
  DeadLetterSelection,
  ListedDeadLetter,
} from './dead-letter-operations.ts';
import { Pausable } from './pausable.ts';

/** A pausable queue that delegates the operations on its dead letters to `deadLettering`. */
export abstract class DeadLetterQueue extends Pausable implements DeadLetterOperations {
  protected abstract readonly deadLettering: DeadLetterOperations;

  newestDeadLetters(limit: number, filter?: DeadLetterFilter): Promise<readonly ListedDeadLetter[]> {
    return this.deadLettering.newestDeadLetters(limit, filter);
  }

  deadLetterReasons(): Promise<DeadLetterReasons> {
    return this.deadLettering.deadLetterReasons();
  }

  redrive(id: string): Promise<boolean> {
    return this.deadLettering.redrive(id);
  }

  purge(id: string): Promise<boolean> {
    return this.deadLettering.purge(id);
  }

  redriveAll(selection: DeadLetterSelection): Promise<BulkResult> {
    return this.deadLettering.redriveAll(selection);
  }

  purgeAll(selection: DeadLetterSelection): Promise<BulkResult> {
    return this.deadLettering.purgeAll(selection);
  }
}
