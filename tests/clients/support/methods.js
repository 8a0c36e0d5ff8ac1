// What methods a client of TypeScript has for those who use it: from its own objects, without what its types call private.

import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** All methods of an object and of those that it has, each once, by where it is found: `[path, function that calls it]`. */
export function* methodsOf(packageName, object) {
  yield* walk(object, '', privatesOf(packageName), new Set());
}

function* walk(object, before, privates, seen) {
  seen.add(object);
  for (let level = object; level && level !== Object.prototype; level = Object.getPrototypeOf(level)) {
    const hidden = privates.get(level.constructor?.name) ?? new Set(['constructor']);
    for (const name of Object.getOwnPropertyNames(level)) {
      if (name === 'constructor' || hidden.has(name)) continue;
      const value = object[name];
      const at = `${before}${name}`;
      if (typeof value === 'function' && !seen.has(value)) {
        seen.add(value);
        yield [at, (...given) => object[name](...given)];
      } else if (isObject(value) && !seen.has(value)) {
        yield* walk(value, `${at}.`, privates, seen);
      }
    }
  }
}

function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Map);
}

/** The names that the types of a package keep from others, of each class by its name. */
function privatesOf(packageName) {
  const found = new Map();
  const folder = path.dirname(fileURLToPath(import.meta.resolve(packageName)));
  for (const file of readdirSync(folder, { recursive: true })) {
    if (!file.endsWith('.d.ts')) continue;
    const text = readFileSync(path.join(folder, file), 'utf8');
    for (const [, name, body] of text.matchAll(/\bclass (\w+)[^{]*\{\n([^]*?)\n\}/g)) {
      const names = body.matchAll(/^\s+(?:private|protected) (?:static |readonly |get |set )*(\w+)/gm);
      found.set(name, new Set([...names].map(([, hidden]) => hidden)));
    }
  }
  return found;
}
