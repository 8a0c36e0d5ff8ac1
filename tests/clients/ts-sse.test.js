// The TypeScript SDK over HTTP+SSE.
import { SSE } from './support/clients.js';
import { facts } from './support/facts.js';

facts(SSE);
