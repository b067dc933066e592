// Runs the scenarios of the Node client ali-ons against one server: NAMESRV PREFIX [SCENARIO...].
'use strict';

const assert = require('node:assert/strict');
const { createRequire } = require('node:module');

// The modules are in the cache, not beside this file.
const { Consumer, Message, Producer } = createRequire(`${process.env.INTEROP_MODULES}/`)('ali-ons');

const [namesrv, prefix, ...wanted] = process.argv.slice(2);
const WAIT_MS = 120000;
// The client's default of 3 s is too short on a busy machine, and a second try is a second message.
const CALL_TIMEOUT_MS = 30000;
const quiet = { info() {}, debug() {}, warn() {}, error(...words) { console.error(...words); } };

// Required by the constructor, but used only to find name servers over HTTP.
const httpclient = { request() { throw new Error('the name server is given, nothing should be asked over HTTP'); } };

const STABLE_POLLS = 20;

let instances = 0;

function options(extra) {
  instances += 1;
  return { nameSrv: [ namesrv ], httpclient, instanceName: `${prefix}-${process.pid}-${instances}`, logger: quiet, ...extra };
}

async function until(what, condition) {
  const deadline = Date.now() + WAIT_MS;
  while (!condition()) {
    assert.ok(Date.now() < deadline, `waited ${WAIT_MS} ms for ${what}`);
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

async function producer(topic) {
  const made = new Producer(options({ producerGroup: `${topic}-producer`, sendMsgTimeout: CALL_TIMEOUT_MS }));
  made.on('error', error => console.error(error));
  await made.ready();
  return made;
}

async function consumer(topic, extra = {}) {
  const from = 'CONSUME_FROM_FIRST_OFFSET';
  const made = new Consumer(options({ consumerGroup: topic, consumeFromWhere: from, rebalanceInterval: 2000, ...extra }));
  made.on('error', error => console.error(error));
  await made.ready();
  return made;
}

function collect(made, topic, tags, seen) {
  made.subscribe(topic, tags, async message => {
    seen.push(message);
  });
}

const bodies = seen => seen.map(message => message.body.toString());

async function send(made, topic, tag, texts) {
  const results = [];
  for (const text of texts) {
    results.push(await made.send(new Message(topic, tag, text)));
  }
  return results;
}

const numbers = (from, to) => Array.from({ length: to - from }, (_, i) => String(from + i));

const scenarios = {
  async sync_send(topic) {
    const made = await producer(topic);
    const next = new Map();
    for (const result of await send(made, topic, 'TagA', numbers(0, 8))) {
      assert.equal(result.sendStatus, 'SEND_OK');
      assert.equal(result.msgId.length, 32);
      const queue = result.messageQueue.queueId;
      assert.equal(result.queueOffset, next.get(queue) ?? 0);
      next.set(queue, result.queueOffset + 1);
    }
    assert.equal(next.size, 4);
    return '8 in 4 queues';
  },

  async consume(topic) {
    const made = await producer(topic);
    const message = new Message(topic, 'TagA', 'hello 消息 🚀');
    message.keys = [ 'key1' ];
    message.properties.color = 'röd';
    const result = await made.send(message);
    const seen = [];
    collect(await consumer(topic), topic, '*', seen);
    await until('the message', () => seen.length >= 1);
    const [ got ] = seen;
    assert.equal(got.body.toString(), 'hello 消息 🚀');
    assert.equal(got.tags, 'TagA');
    assert.equal(got.keys, 'key1');
    assert.equal(got.properties.color, 'röd');
    assert.equal(got.msgId, result.msgId);
    // The client sets none, so the broker must.
    assert.ok(got.properties.UNIQ_KEY, 'no UNIQ_KEY');
    assert.equal(got.queueOffset, 0);
    return 'all fields';
  },

  async tag_filter(topic) {
    const made = await producer(topic);
    for (const [ i, text ] of numbers(0, 30).entries()) {
      await send(made, topic, 'Tag' + 'ABC'[i % 3], [ text ]);
    }
    const seen = [];
    collect(await consumer(topic), topic, 'TagA || TagB', seen);
    await until('20 messages', () => seen.length >= 20);
    await send(made, topic, 'TagC', [ 'other' ]);
    await send(made, topic, 'TagB', [ 'last' ]);
    await until('the last match', () => bodies(seen).includes('last'));
    assert.equal(seen.length, 21);
    return '21 of 32';
  },

  async clustering(topic) {
    const seen = [ [], [] ];
    const first = await consumer(topic);
    collect(first, topic, '*', seen[0]);
    // Its first rebalance must be over: a lone member that still takes queues looks like one that shares them.
    await untilShared(topic, 4, first);
    const second = await consumer(topic);
    collect(second, topic, '*', seen[1]);
    await untilShared(topic, 2, first, second);
    await send(await producer(topic), topic, 'T', numbers(0, 80));
    await until('80 messages', () => seen[0].length + seen[1].length >= 80);
    assert.deepEqual(seen.map(mine => mine.length), [ 40, 40 ]);
    assert.deepEqual(bodies(seen.flat()).map(Number).sort((x, y) => x - y), numbers(0, 80).map(Number));
    return '40 and 40';
  },

  async broadcasting(topic) {
    const seen = [ [], [] ];
    for (const mine of seen) {
      collect(await consumer(topic, { isBroadcast: true }), topic, '*', mine);
    }
    const made = await producer(topic);
    await send(made, topic, 'T', numbers(0, 20));
    for (const mine of seen) {
      await until('20 messages at each', () => mine.length >= 20);
      assert.deepEqual(bodies(mine).map(Number).sort((x, y) => x - y), numbers(0, 20).map(Number));
    }
    return '20 and 20';
  },

  async retry(topic) {
    const seen = [];
    const made = await consumer(topic);
    made.subscribe(topic, '*', async message => {
      seen.push(message);
      return message.reconsumeTimes < 1 ? Consumer.ACTION_RETRY : undefined;
    });
    await send(await producer(topic), topic, 'T', [ 'again' ]);
    await until('the second delivery', () => seen.length >= 2);
    assert.equal(seen[1].body.toString(), 'again');
    assert.equal(seen[1].reconsumeTimes, 1);
    assert.equal(seen[1].topic, topic);
    return 'reconsumeTimes 1';
  },

  async delay_level(topic) {
    const made = await producer(topic);
    const message = new Message(topic, 'T', 'later');
    message.properties.DELAY = '1';
    await made.send(message);
    const seen = [];
    collect(await consumer(topic), topic, '*', seen);
    await until('the delayed message', () => seen.length >= 1);
    assert.equal(seen[0].body.toString(), 'later');
    assert.ok(seen[0].storeTimestamp - seen[0].bornTimestamp >= 900, 'a level 1 message came early');
    return 'delivered';
  },

  async compressed(topic) {
    const text = numbers(0, 20000).join(' ');
    const made = await producer(topic);
    await send(made, topic, 'T', [ text ]);
    const seen = [];
    collect(await consumer(topic), topic, '*', seen);
    await until('the message', () => seen.length >= 1);
    assert.equal(seen[0].body.toString(), text);
    assert.ok(seen[0].storeSize < text.length / 2, `stored uncompressed: ${seen[0].storeSize}`);
    return `stored in ${seen[0].storeSize} bytes`;
  },

  async offsets_survive(topic) {
    const made = await producer(topic);
    for (const [ from, to ] of [ [ 0, 20 ], [ 20, 30 ] ]) {
      await send(made, topic, 'T', numbers(from, to));
      const seen = [];
      const one = await consumer(topic);
      collect(one, topic, '*', seen);
      await until('its messages', () => seen.length >= to - from);
      assert.deepEqual(bodies(seen).map(Number).sort((x, y) => x - y), numbers(from, to).map(Number));
      // The offset of the last message is recorded only after its handler has returned.
      await new Promise(resolve => setImmediate(resolve));
      await one.close();
    }
    return '20 then 10';
  },
};

// Waits until each consumer holds count queues of the topic, and still after a while.
async function untilShared(topic, count, ...consumers) {
  const held = one => [ ...one.processQueueTable.values() ].filter(({ messageQueue }) => messageQueue.topic === topic);
  let inARow = 0;
  await until(`shares of ${count} queues`, () => {
    inARow = consumers.every(one => held(one).length === count) ? inARow + 1 : 0;
    return inARow >= STABLE_POLLS;
  });
}

function report(scenario, ok, detail) {
  process.stdout.write(JSON.stringify({ scenario, ok, detail: String(detail) }) + '\n');
}

async function main() {
  await Promise.all(wanted.map(async name => {
    try {
      report(name, true, await scenarios[name](`${prefix}-${name}`));
    } catch (failure) {
      report(name, false, failure.stack.split('\n').slice(0, 3).join(' '));
    }
  }));
  process.exit(0);
}

process.on('unhandledRejection', failure => console.error(failure));
main();
