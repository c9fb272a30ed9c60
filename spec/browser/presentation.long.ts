import { describeInBrowser } from './chromium.ts';
import { itShowsFailedTasksAt, itShowsTheTaskBoardAt, itShowsTheTickerAt } from './every-state.ts';

describeInBrowser('both clients', () => {
  // With presentation.spec.ts, each page is seen at each width, and in both color schemes.
  itShowsTheTickerAt(1280, 'dark');
  itShowsTheTickerAt(2560, 'light');
  itShowsTheTaskBoardAt(320, 'light');
  itShowsTheTaskBoardAt(2560, 'light');
  itShowsFailedTasksAt(768, 'light');
  itShowsFailedTasksAt(1280, 'dark');
  itShowsFailedTasksAt(2560, 'dark');
});
