/** The built-in action as a handlers module, to measure the cost of a module. */
import { perform } from '../../../workers/tasks/actions.ts';
import { defineHandlers } from '../../../workers/tasks/handlers-api.ts';

export default defineHandlers({ uppercase: (data) => perform('uppercase', data) });
