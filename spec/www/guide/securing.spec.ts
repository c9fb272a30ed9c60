import { describeBehind } from './behind-proxy.ts';
import { startNginx } from './proxy.ts';

describeBehind('nginx', startNginx);
