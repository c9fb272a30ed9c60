/** The built-in action as a handlers module, to measure the cost of a module. */
import { perform } from '../../../workers/actions.ts';
import { defineHandlers } from '../../../workers/handlers-api.ts';

export default defineHandlers({ uppercase: (data) => perform('uppercase', data) });
