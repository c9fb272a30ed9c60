import { itServesBesideStalled } from './stalled-clients.ts';

describe('clients that never read, many of them', () => {
  itServesBesideStalled(1000);
});
