// Starts a broker for a test, sends an order and receives it, with the client ali-ons. Needs pymq on PATH.
//
//     npm install ali-ons && node orders.js
'use strict';

const { execFileSync, spawn } = require('node:child_process');
const { once } = require('node:events');
const { createRequire } = require('node:module');
const { createInterface } = require('node:readline');

const modules = process.env.NODE_MODULES_DIRECTORY; // beside this file, unless it says where
const { Consumer, Message, Producer } = (modules ? createRequire(`${modules}/`) : require)('ali-ons');
const quiet = { info() {}, debug() {}, warn() {}, error: console.error };
const httpclient = { request() { throw new Error('the name server is given'); } };

async function startBroker() {
  const args = [ 'standalone', '--ephemeral', '--namesrv-port', '0', '--port', '0', '--json' ];
  const child = spawn('pymq', args, { stdio: [ 'ignore', 'pipe', 'inherit' ] });
  const [ line ] = await once(createInterface({ input: child.stdout }), 'line');
  return { ...JSON.parse(line), stop: async () => { child.kill('SIGTERM'); await once(child, 'exit'); } };
}

async function roundTrip(namesrv) {
  execFileSync('pymq', [ 'topic', 'create', 'Orders', '--namesrv', namesrv ]); // this client sends to no new topic
  const options = { nameSrv: [ namesrv ], httpclient, logger: quiet };
  const producer = new Producer({ ...options, producerGroup: 'orders', sendMsgTimeout: 30000 });
  await producer.ready();
  await producer.send(new Message('Orders', 'paid', '{"id": 1}'));

  const consumer = new Consumer({ ...options, consumerGroup: 'billing', consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' });
  const received = new Promise(resolve => {
    consumer.subscribe('Orders', 'paid', async message => resolve(message.body.toString()));
  });
  await consumer.ready();
  const body = await received;
  await consumer.close();
  await producer.close();
  return body;
}

async function main() {
  const broker = await startBroker();
  try {
    console.log(`received ${await roundTrip(broker.namesrv)}`);
  } finally {
    await broker.stop();
  }
  process.exit(0);
}

main().catch(error => { console.error(error); process.exit(1); });
