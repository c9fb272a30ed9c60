import type { ServerResponse } from 'node:http';
import type { TaskRecord } from '../../../db/sqlite/tasks.ts';
import { TURN_BYTES } from '../../http/admission.ts';
import { HttpError } from '../../http/errors.ts';
import type { Progress } from '../queue/queue.ts';
import type { TasksRouterOptions } from './app.ts';
import { unavailable } from './queue-router.ts';
import { query } from './task-listing.ts';
import { unfinishedTask } from './task-status.ts';

/** Admission cost of reading a task row. Fixed, because the size of the row is not known in advance. */
const ROW_COST = TURN_BYTES / 8;

/** Finds tasks by id, whether they are in the queue, dead-lettered or stored. */
export class TaskLookup {
  readonly #parts: Pick<TasksRouterOptions, 'queue' | 'tasks' | 'events' | 'admission'>;

  constructor(parts: Pick<TasksRouterOptions, 'queue' | 'tasks' | 'events' | 'admission'>) {
    this.#parts = parts;
  }

  /** Returns the row of a task, or its state in the queue. @throws {HttpError} if queue or rows cannot be read */
  async find(id: string): Promise<object | undefined> {
    const { queue } = this.#parts;
    // Searches the queue before the rows. A task leaves the queue only after its row is stored, so no task is missed.
    const progress = await queue.find(id).catch((cause: unknown) => new HttpError('queueUnavailable', { cause }));
    const row = await (progress === undefined ? query(() => this.#row(id)) : this.#rowIfReadable(id));
    if (row === undefined && progress instanceof HttpError) throw progress;
    return row ?? (progress && unfinishedTask(id, progress as Progress));
  }

  /** @throws {HttpError} if the rows cannot be read */
  async hasRow(id: string): Promise<boolean> {
    return (await query(() => this.#row(id))) !== undefined;
  }

  /** Whether a task that cannot be cancelled has a row or a dead letter. */
  async isFinished(id: string): Promise<boolean> {
    return (await this.hasRow(id)) || (await this.#parts.queue.find(id).catch(unavailable)) !== undefined;
  }

  /** Waits until the task ends, `seconds` pass or the client disconnects. Returns the task's row or dead letter. */
  async endWithin(id: string, seconds: number, response: ServerResponse): Promise<object | undefined> {
    const { queue, events } = this.#parts;
    const { ended, cancel } = events.waitForEnd(id, seconds * 1000);
    response.once('close', cancel);
    // A repeated submission with an idempotency key returns the id of the earlier task, which may already have ended.
    const hasEnded = await queue.find(id).then(
      (progress) => progress === undefined || progress.state === 'failed',
      () => false,
    );
    if (hasEnded) cancel();
    await ended;
    response.off('close', cancel);
    const row = await this.#rowIfReadable(id);
    if (row !== undefined) return row;
    const progress = await queue.find(id).catch(() => undefined);
    return progress?.state === 'failed' ? unfinishedTask(id, progress) : undefined;
  }

  #rowIfReadable(id: string): Promise<TaskRecord | undefined> {
    return this.#row(id).catch(() => undefined);
  }

  async #row(id: string): Promise<TaskRecord | undefined> {
    await this.#parts.admission.enter(ROW_COST);
    return this.#parts.tasks.find(id);
  }
}
