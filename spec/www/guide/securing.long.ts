import { configureCaddy, describeBehind } from './behind-proxy.ts';

describeBehind('caddy', 'Caddy', configureCaddy);
