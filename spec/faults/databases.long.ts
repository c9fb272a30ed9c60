import { itSurvivesDamage } from './damaged-databases.ts';

describe('a database', () => {
  itSurvivesDamage('memory', ['auth.db', 'tasks.db']);
});
