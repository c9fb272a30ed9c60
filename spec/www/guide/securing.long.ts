import { describeBehind, startCaddy } from './behind-proxy.ts';

describeBehind('caddy', startCaddy);
