// The worker of a page that a server sends. A page that is one file has the bundle of engine.js instead.

import serve from "./engine.js";

serve((address) => import(address));
