import { describeInBrowser } from './chromium.ts';
import { itLooksRightAt } from './every-state.ts';

describeInBrowser('both clients on a large screen', () => itLooksRightAt(2560));
