// Somebody with ConnectOnion's npm client: the same lines as python_client.py. `keys` is null (the client makes its
// own) or a name: agents of one name in one process are one person. Whatever changes is told as {"changed", "status"}.
'use strict';
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

const commands = {
  async connect({ agent, address: of, keys, options }) {
    const given = { ...options, wsCtor: WebSocket };
    if (keys) given.keys = people[keys] ??= address.generate();
    agents[agent] = connect(of, given);
    agents[agent].onMessage = () => say({ changed: agent, status: agents[agent].status });
    return keys ? given.keys.address : null;
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
