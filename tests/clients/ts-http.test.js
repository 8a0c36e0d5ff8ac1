// The TypeScript SDK over streamable HTTP.
import { HTTP } from './support/clients.js';
import { facts } from './support/facts.js';

facts(HTTP);
