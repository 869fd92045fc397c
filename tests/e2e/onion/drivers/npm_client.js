// Somebody with ConnectOnion's npm client: the same lines as python_client.py. `keys` is a seed (hex), or a name: agents
// of one name in one process are one person. Whatever changes is told as {"changed", "status"}.
'use strict';
const crypto = require('crypto');
const path = require('path');
const readline = require('readline');

const modules = process.argv[2];
const { connect, address } = require(path.join(modules, 'connectonion'));
const WebSocket = require(path.join(modules, 'ws'));

const out = process.stdout.write.bind(process.stdout);
console.log = console.info = (...words) => console.error(...words);
const agents = {};
const people = {};

function say(line) {
  out(JSON.stringify(line) + '\n');
}

// A seed as the client wants its keys.
function keysOf(seed) {
  const privateKey = Buffer.from(seed, 'hex');
  const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), privateKey]);
  const whole = crypto.createPublicKey(crypto.createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }));
  const publicKey = whole.export({ type: 'spki', format: 'der' }).slice(-32);
  return { address: '0x' + publicKey.toString('hex'), publicKey, privateKey };
}

const commands = {
  async connect({ agent, address: of, keys, options }) {
    people[keys] ??= /^[0-9a-f]{64}$/.test(keys) ? keysOf(keys) : address.generate();
    agents[agent] = connect(of, { ...options, keys: people[keys], wsCtor: WebSocket });
    agents[agent].onMessage = () => say({ changed: agent, status: agents[agent].status });
    return people[keys].address;
  },
  async call({ agent, name, given }) {
    const answer = await agents[agent][name](...(given || []));
    return answer === undefined ? null : answer;
  },
  async state({ agent }) {
    const it = agents[agent];
    return { status: it.status, session: it.currentSession, ui: it.ui, in: it._authenticated };
  },
};

async function handle(command) {
  try {
    say({ n: command.n, ok: await commands[command.do](command) });
  } catch (problem) {
    say({ n: command.n, raised: problem.name, text: problem.message });
  }
}

readline.createInterface({ input: process.stdin }).on('line', (line) => handle(JSON.parse(line)))
  .on('close', () => process.exit(0));
