// Stays connected as one user: NAMESRV TOPIC GROUP ACCESS_KEY SECRET_KEY; without keys it signs nothing.
// Sends each line of its input, and prints what it sent and consumed.
'use strict';

const { createRequire } = require('node:module');
const readline = require('node:readline');

// The modules are in the cache, not beside this file.
const { Consumer, Message, Producer } = createRequire(`${process.env.INTEROP_MODULES}/`)('ali-ons');

const [ namesrv, topic, group, accessKey, secretKey ] = process.argv.slice(2);
const CALL_TIMEOUT_MS = 30000;
const quiet = { info() {}, debug() {}, warn() {}, error(...words) { console.error(...words); } };
const httpclient = { request() { throw new Error('the name server is given, nothing should be asked over HTTP'); } };

function options(extra) {
  const keys = accessKey ? { accessKey, secretKey } : {};
  return { nameSrv: [ namesrv ], httpclient, instanceName: `${group}-${process.pid}`, logger: quiet, ...keys, ...extra };
}

async function send(producer, text) {
  try {
    return (await producer.send(new Message(topic, 'T', text))).sendStatus;
  } catch (refused) {
    return `${refused.code} ${refused.message}`.replaceAll('\n', ' ');
  }
}

async function main() {
  const producer = new Producer(options({ producerGroup: `${group}-producer`, sendMsgTimeout: CALL_TIMEOUT_MS }));
  producer.on('error', error => console.error(error));
  await producer.ready();
  const from = 'CONSUME_FROM_FIRST_OFFSET';
  const consumer = new Consumer(options({ consumerGroup: group, consumeFromWhere: from, rebalanceInterval: 2000 }));
  consumer.on('error', error => console.error(error));
  consumer.subscribe(topic, '*', async message => {
    console.log(`consumed ${message.body}`);
  });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(`sent ${line}: ${await send(producer, line)}`);
  }
  process.exit(0);
}

process.on('unhandledRejection', failure => console.error(failure));
main();
