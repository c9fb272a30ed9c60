/** Client of both services, for browsers and for Node 18 or later. Published as `ticker-and-tasks/client`. */
export type { CredentialOptions } from './client/credentials.ts';
export type { BulkResult, DeadLetters, LetterSelection } from './client/dead-letters.ts';
export {
  ClosedError,
  ServiceError,
  TaskCancelledError,
  TaskFailedError,
  UnreachableError,
} from './client/errors.ts';
export type { ClientOptions, HttpClient, RequestOptions } from './client/http-client.ts';
export type { ActionLimits, LimitSettings } from './client/limits.ts';
export type { QueueHistory, QueueStatus } from './client/queue-api.ts';
export type { Status } from './client/reconnection.ts';
export type { Schedule, ScheduleSettings } from './client/schedules.ts';
export type { Completed, Task, TaskListeners, TaskTokenOptions } from './client/task.ts';
export type { ActionName, DataOf, OutputOf, SubmissionOptions, SubmitOptions } from './client/task-client.ts';
export { TaskClient } from './client/task-client.ts';
export type { DeadLetter, TaskEvent, TaskProgress, TaskRow, TaskState } from './client/task-state.ts';
export type { Price, Tick } from './client/tick-stream.ts';
export { type PriceHistory, TickerClient, type TickerOptions } from './client/ticker-client.ts';
