import { describeBrokenFrames } from './broken-frames.ts';

describeBrokenFrames(40);
