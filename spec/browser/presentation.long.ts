import { describeInBrowser } from './chromium.ts';
import { itLooksRightAt } from './every-state.ts';

describeInBrowser('both clients', () => {
  itLooksRightAt(320, 'dark');
  itLooksRightAt(1280, 'light');
  itLooksRightAt(2560, 'light');
  itLooksRightAt(2560, 'dark');
});
