import { describeInBrowser } from './chromium.ts';
import { itShowsFailedTasksAt } from './every-failed-state.ts';
import { itShowsTheTaskBoardAt, itShowsTheTickerAt } from './every-state.ts';

describeInBrowser('both clients', () => {
  // presentation.spec.ts covers the ticker at 320 pixels in light, the task board at 1280 pixels in dark, and the failed tasks at 320 pixels in light.
  itShowsTheTickerAt(320, 'dark');
  itShowsTheTickerAt(1280, 'light');
  itShowsTheTickerAt(1280, 'dark');
  itShowsTheTaskBoardAt(320, 'light');
  itShowsTheTaskBoardAt(320, 'dark');
  itShowsTheTaskBoardAt(1280, 'light');
  itShowsFailedTasksAt(320, 'dark');
  for (const colorScheme of ['light', 'dark'] as const) {
    itShowsTheTickerAt(2560, colorScheme);
    itShowsTheTaskBoardAt(2560, colorScheme);
    for (const width of [768, 1280, 2560]) itShowsFailedTasksAt(width, colorScheme);
  }
});
