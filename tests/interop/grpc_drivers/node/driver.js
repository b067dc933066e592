// The driver of the Node gRPC client. It does what each line of standard input asks, side by side.
'use strict';

const { createRequire } = require('node:module');
const readline = require('node:readline');

// The modules are in the cache, not beside this file.
const load = createRequire(`${process.env.INTEROP_MODULES}/`);
const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = load('rocketmq-client-nodejs');
const { FilterType, TransactionResolution } =
  load('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const CALL_TIMEOUT_MS = 10000;
const AWAIT_MS = 5000;
const log = (...words) => console.error(...words);
const base = ({ endpoint, user }) => ({
  endpoints: endpoint,
  namespace: '',
  requestTimeout: CALL_TIMEOUT_MS,
  logger: { debug() {}, info() {}, warn: log, error: log },
  ...(user && { sessionCredentials: { accessKey: user[0], accessSecret: user[1] } }),
});

const clients = new Map();
const transactions = new Map();
const received = new Map();

const tell = line => process.stdout.write(JSON.stringify(line) + '\n');

const fields = message => ({
  id: message.messageId,
  topic: message.topic,
  body: message.body.toString('base64'),
  tag: message.tag || null,
  keys: message.keys,
  properties: Object.fromEntries(message.properties),
  message_group: message.messageGroup || null,
  delivery_ms: message.deliveryTimestamp?.getTime() ?? null,
  born_ms: message.bornTimestamp.getTime(),
  attempt: message.deliveryAttempt,
});

// A body's last word says how its transaction ended.
const checker = {
  async check(message) {
    const body = message.body.toString();
    if (body.endsWith('commit')) return TransactionResolution.COMMIT;
    if (body.endsWith('rollback')) return TransactionResolution.ROLLBACK;
    return TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED;
  },
};

// A body "fail N …" fails at its first N deliveries; "slow N …" takes N seconds.
function listener(name) {
  const deliveries = new Map();
  return {
    async consume(message) {
      const count = (deliveries.get(message.messageId) ?? 0) + 1;
      deliveries.set(message.messageId, count);
      tell({ consumer: name, message: fields(message) });
      const words = message.body.toString().split(' ', 2);
      if (words[0] === 'slow') await new Promise(done => setTimeout(done, Number(words[1]) * 1000));
      return words[0] === 'fail' && count <= Number(words[1]) ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
    },
  };
}

const subscriptions = ({ topic, sql, tags }) =>
  new Map([[ topic, sql === undefined ? new FilterExpression(tags) : new FilterExpression(sql, FilterType.SQL) ]]);

async function start(name, client) {
  await client.startup();
  clients.set(name, client);
}

const ops = {
  producer: ({ name, topic, ...rest }) =>
    start(name, new Producer({ ...base(rest), topics: [ topic ], checker })),
  async send({ name, topic, body, tag, keys, message_group: messageGroup, properties, delivery_ms: deliveryMs, transaction }) {
    const message = { topic, body: Buffer.from(body, 'base64'), tag, keys, messageGroup };
    if (properties) message.properties = new Map(Object.entries(properties));
    if (deliveryMs) message.deliveryTimestamp = new Date(deliveryMs);
    const producer = clients.get(name);
    if (!transaction) {
      const receipt = await producer.send(message);
      return { id: receipt.messageId, handle: receipt.recallHandle };
    }
    const begun = producer.beginTransaction();
    const receipt = await producer.send(message, begun);
    transactions.set(receipt.messageId, begun);
    return { id: receipt.messageId };
  },
  end: ({ id, commit }) => (commit ? transactions.get(id).commit() : transactions.get(id).rollback()),
  recall: async ({ name, topic, handle }) => (await clients.get(name).recallMessage(topic, handle)).messageId,
  simple: ({ name, group, ...rest }) => start(name, new SimpleConsumer({
    ...base(rest), consumerGroup: group, awaitDuration: AWAIT_MS, subscriptions: subscriptions(rest),
  })),
  async receive({ name, count, seconds }) {
    const messages = await clients.get(name).receive(count, seconds * 1000);
    messages.forEach(message => received.set(message.messageId, message));
    return messages.map(fields);
  },
  ack: ({ name, id }) => clients.get(name).ack(received.get(id)),
  change: ({ name, id, seconds }) => clients.get(name).changeInvisibleDuration(received.get(id), seconds * 1000),
  push: ({ name, group, ...rest }) => start(name, new PushConsumer({
    ...base(rest), consumerGroup: group, subscriptions: subscriptions(rest), messageListener: listener(name),
  })),
  async close({ name }) {
    await clients.get(name).shutdown();
    clients.delete(name);
  },
};

async function answer({ call, op, ...request }) {
  try {
    tell({ call, result: (await ops[op](request)) ?? null });
  } catch (failure) {
    tell({ call, error: failure.stack.split('\n').slice(0, 3).join(' ') });
  }
}

process.on('unhandledRejection', log);
const lines = readline.createInterface({ input: process.stdin, crlfDelay: Infinity });
lines.on('line', line => answer(JSON.parse(line)));
lines.on('close', () => process.exit(0));
