// What may stand for relay among the servers in an editor's file of JSON before relay is installed.

export const ADDRESS = { url: 'http://localhost:7331/mcp' };
export const PROGRAM = { command: '/old/relay', args: ['mcp'] };

/** Entries by what they are, made of one with an address and of one with a command as the editor itself writes them. */
export const entries = (address, program) => ({
  'an address': address,
  'a command': program,
  'a command with its environment': { ...program, env: { RELAY_AGENT: 'dev-a' }, environment: { RELAY_AGENT: 'dev-a' } },
  'an address with what belongs to a command': { ...address, args: ['mcp'], env: { A: 'b' }, environment: { A: 'b' }, cwd: '/' },
  'a command with what belongs to an address': { ...program, ...address, headers: { A: 'b' }, oauth: { clientId: 'x' } },
  'values of another kind': { ...address, headers: 3, timeout: '5', enabled: 'yes', trust: 'no' },
  'what belongs to another editor': { type: 'http', serverUrl: ADDRESS.url, environment: { A: 1 }, command: ['relay', 'mcp'] },
});
