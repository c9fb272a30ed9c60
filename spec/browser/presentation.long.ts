import { describeInBrowser } from './chromium.ts';
import { itShowsTheTaskBoardAt, itShowsTheTickerAt } from './every-state.ts';

describeInBrowser('both clients', () => {
  // presentation.spec.ts covers the ticker at 320 pixels in light, and the task board at 1280 pixels in dark.
  itShowsTheTickerAt(320, 'dark');
  itShowsTheTickerAt(1280, 'light');
  itShowsTheTickerAt(1280, 'dark');
  itShowsTheTaskBoardAt(320, 'light');
  itShowsTheTaskBoardAt(320, 'dark');
  itShowsTheTaskBoardAt(1280, 'light');
  for (const colorScheme of ['light', 'dark'] as const) {
    itShowsTheTickerAt(2560, colorScheme);
    itShowsTheTaskBoardAt(2560, colorScheme);
  }
});
