import { describeBehind } from './behind-proxy.ts';
import { startCaddy } from './proxy.ts';

describeBehind('caddy', startCaddy);
