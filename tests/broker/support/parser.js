// The published parser of what relay sends to a node: it refuses each field that it does not know.

import { parseFleetRelaycastToBrokerMessage } from '@relaycast/types';

/** What the parser has against a frame; nothing, if it takes it. */
export function refusedBy(frame) {
  try {
    parseFleetRelaycastToBrokerMessage(frame);
    return undefined;
  } catch (error) {
    return `${error.message}: ${JSON.stringify(frame)}`;
  }
}

/** What relay adds to the metadata of what is delivered: nothing to most. */
export function added(frame) {
  const { data } = frame.payload;
  return (data.message?.metadata ?? data.metadata)?.relay ?? {};
}
